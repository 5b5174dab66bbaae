package pki

import (
	"net"
	"os"
	"strings"
)

// Names lists what every served certificate must carry, without repetition: the API's own
// service, this host, and what was configured.
func Names(nodeName, clusterDomain string, serviceIP net.IP, host Host, configured []string) []string {
	fixed := []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + clusterDomain,
		"localhost", "127.0.0.1", "::1", serviceIP.String(), nodeName, host.Name,
	}
	seen := map[string]bool{"": true}
	var out []string
	for _, name := range append(append(fixed, host.Addresses...), configured...) {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}

// Host is what the machine calls itself.
type Host struct {
	Name      string
	Addresses []string
}

// ThisHost reads name and addresses; what cannot be read is left out, since a testbed
// needs only its loopback names.
func ThisHost() Host {
	var host Host
	if name, err := os.Hostname(); err == nil {
		host.Name = strings.ToLower(name)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return host
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			host.Addresses = append(host.Addresses, network.IP.String())
		}
	}
	return host
}
