// Command k3s-testbed is a k3s-compatible control plane for development and tests,
// made of the parts k3s itself is made of. It is test equipment: never in a release image.
//
// Guarantees: the flags, files and merge rules of k3s that Config Weaver relies on behave
// as a real k3s was seen to behave; whatever is not supported is refused by name.
// Failure: one line on stderr naming the cause and the remedy, exit 1 (2 for wrong usage).
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"config-weaver/testbed/internal/config"
	"config-weaver/testbed/internal/server"
)

const usage = `k3s-testbed: a k3s-compatible control plane for development and tests

  k3s-testbed server [flags]     run the control plane until SIGTERM (flags: server --help)
  k3s-testbed kubectl [args]     kubectl of the same version
  k3s-testbed certificate rotate --service k3s-server
                                 the served certificate is made again at the next start
  k3s-testbed --version          version, in k3s' form
`

func main() {
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

// run dispatches on the first argument, and on the program's own name for a kubectl link.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && filepath.Base(args[0]) == "kubectl" {
		return runKubectl(args[1:])
	}
	if len(args) < 2 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	switch args[1] {
	case "server":
		return runServer(args[2:], stdout, stderr)
	case "kubectl":
		return runKubectl(args[2:])
	case "certificate":
		return runCertificate(args[2:], stdout, stderr)
	case "--version", "-v", "version":
		fmt.Fprint(stdout, versionText())
		return 0
	case "--help", "-h", "help":
		fmt.Fprint(stdout, usage)
		return 0
	default:
		fmt.Fprintf(stderr, "k3s-testbed: unknown command %q\n\n%s", args[1], usage)
		return 2
	}
}

// runServer reads flags and configuration files, then runs the control plane to its end.
func runServer(args []string, stdout, stderr io.Writer) int {
	options, err := config.Load(args, os.Getenv)
	switch {
	case errors.Is(err, config.ErrHelp):
		fmt.Fprint(stdout, config.Help())
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "k3s-testbed: %v\n", err)
		return 2
	}
	if err := server.Run(options); err != nil {
		fmt.Fprintf(stderr, "k3s-testbed: %v\n", err)
		return 1
	}
	return 0
}
