package main

import (
	"os"
	"strings"

	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"

	"config-weaver/testbed/internal/config"
)

// runKubectl runs kubectl with the given arguments. As with k3s, the server's own
// kubeconfig is the default where neither KUBECONFIG nor --kubeconfig names another.
func runKubectl(args []string) int {
	if path := defaultKubeconfig(args, os.Getenv("KUBECONFIG")); path != "" {
		// kubectl reads the variable itself, plugins included; there is no other door.
		if err := os.Setenv("KUBECONFIG", path); err != nil {
			kubectlutil.CheckErr(err)
		}
	}
	// kubectl and its plug-in handler read os.Args directly.
	os.Args = append([]string{"kubectl"}, args...)
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
		return 1
	}
	return 0
}

// defaultKubeconfig is the path to fall back to, or "" where the caller has chosen one
// or the file cannot be read (kubectl's own default then applies).
func defaultKubeconfig(args []string, environment string) string {
	if environment != "" {
		return ""
	}
	for _, arg := range args {
		if arg == "--kubeconfig" || strings.HasPrefix(arg, "--kubeconfig=") {
			return ""
		}
	}
	file, err := os.Open(config.SystemKubeconfig)
	if err != nil {
		return ""
	}
	_ = file.Close()
	return config.SystemKubeconfig
}
