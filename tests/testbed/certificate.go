package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"config-weaver/testbed/internal/config"
	"config-weaver/testbed/internal/front"
)

const certificateUsage = `k3s-testbed certificate rotate --service k3s-server [--data-dir DIR]

Has the served certificate made again at the next start, as k3s does: with the names it has, and a new key.
`

// listener is k3s' name for the certificate of the https port.
const listener = "k3s-server"

// runCertificate leaves the mark that the next start acts on. Like k3s it reads no configuration file: a data
// directory other than the usual one must be named.
func runCertificate(args []string, stdout, stderr io.Writer) int {
	set := pflag.NewFlagSet("certificate", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	services := set.StringP("service", "s", "", "")
	given := set.StringP("data-dir", "d", os.Getenv("K3S_DATA_DIR"), "")
	refuse := func(format string, values ...any) int {
		fmt.Fprintf(stderr, "k3s-testbed: certificate: "+format+"\n\n%s", append(values, certificateUsage)...)
		return 2
	}
	switch err := set.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, certificateUsage)
		return 0
	case err != nil:
		return refuse("%v", err)
	case len(set.Args()) != 1 || set.Arg(0) != "rotate":
		return refuse("%q: only rotate is known here", strings.Join(set.Args(), " "))
	case *services != listener:
		return refuse("--service %q: only %s is known here", *services, listener)
	}
	dataDir, err := config.DataDir(*given)
	if err != nil {
		return refuse("%v", err)
	}
	tls := filepath.Join(dataDir, "server", "tls")
	if _, err := os.Stat(tls); err != nil {
		fmt.Fprintf(stderr, "k3s-testbed: no server has run on %s: %v; name its --data-dir\n", dataDir, err)
		return 1
	}
	if err := front.AskForRegeneration(tls); err != nil {
		fmt.Fprintf(stderr, "k3s-testbed: %v\n", err)
		return 1
	}
	fmt.Fprintf(stdout, "Rotating dynamic listener certificate: restart the server on %s\n", dataDir)
	return 0
}
