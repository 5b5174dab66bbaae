package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// revision identifies the sources of this binary; build.sh sets it to their hash.
var revision = "unknown"

// versionText has the shape of `k3s --version`; the suffix tells a testbed from a k3s.
func versionText() string {
	return fmt.Sprintf("k3s version %s+testbed1 (%s)\ngo version %s\n", kubernetesVersion(), revision, runtime.Version())
}

// kubernetesVersion is the version of the Kubernetes module linked into this binary.
func kubernetesVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "v0.0.0"
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			return module.Version
		}
	}
	return "v0.0.0"
}
