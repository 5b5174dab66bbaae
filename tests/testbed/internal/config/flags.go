// Package config turns k3s' command line and configuration files into typed options.
//
// Guarantees: k3s' merge rules (drop-ins in alphabetical order, last value wins, "key+"
// appends, the command line replaces whole lists); a flag or key that the testbed does not
// know is refused. Failure: an error naming the flag, or the file with line and column.
package config

// Kind says how values of one flag combine.
type kind int

const (
	scalar  kind = iota // the last value wins
	boolean             // as scalar; a missing value means true
	list                // every value counts, none is split
	commas              // every value counts, each is split at commas
)

// flag describes one k3s server flag, which is also a key of the configuration file.
type flag struct {
	name    string
	short   string
	env     string
	kind    kind
	ignored string // why the value has no effect here; "" where it has one
	usage   string
}

// Reasons for accepting a flag without acting on it.
const (
	noAgent     = "the testbed runs no agent (no kubelet, kube-proxy or containers)"
	noNetwork   = "the testbed runs no pods, so there is no pod network"
	noScheduler = "the testbed runs no scheduler"
	noAddons    = "the testbed deploys no packaged components"
	noJoin      = "nothing can join a testbed"
)

// flags is the whole table: what is not here is refused.
var flags = []flag{
	{name: "config", short: "c", env: "K3S_CONFIG_FILE", usage: "configuration file; FILE.d/*.yaml are its drop-ins (default " + systemConfig + ")"},
	{name: "debug", kind: boolean, usage: "log more"},
	{name: "data-dir", short: "d", env: "K3S_DATA_DIR", usage: "where state is kept (default " + systemDataDir + ", or ~/.rancher/k3s if not root)"},
	{name: "bind-address", usage: "address to listen on (default: all)"},
	{name: "https-listen-port", usage: "port to listen on (default 6443)"},
	{name: "advertise-address", usage: "address given to clients; added to the certificate"},
	{name: "tls-san", kind: commas, usage: "additional names or addresses in the served certificate"},
	{name: "tls-san-security", kind: boolean, usage: "refuse names that clients ask for and that are not configured (default true)"},
	{name: "node-name", env: "K3S_NODE_NAME", usage: "node name (default: the host name)"},
	{name: "node-ip", short: "i", kind: commas, usage: "addresses of the node; added to the certificate"},
	{name: "service-cidr", kind: commas, usage: "service network (default 10.43.0.0/16)"},
	{name: "cluster-domain", usage: "cluster domain (default cluster.local)"},
	{name: "write-kubeconfig", short: "o", env: "K3S_KUBECONFIG_OUTPUT", usage: "write the admin kubeconfig here (default " + SystemKubeconfig + ", or ~/.kube/k3s.yaml if not root)"},
	{name: "write-kubeconfig-mode", env: "K3S_KUBECONFIG_MODE", usage: "its mode, octal (default 0600)"},
	{name: "kube-apiserver-arg", kind: list, usage: "key=value for kube-apiserver, repeatable"},
	{name: "kube-controller-manager-arg", kind: list, usage: "key=value for kube-controller-manager, repeatable"},
	{name: "disable-agent", kind: boolean, ignored: noAgent},
	{name: "kubelet-arg", kind: list, ignored: noAgent},
	{name: "kube-proxy-arg", kind: list, ignored: noAgent},
	{name: "node-label", kind: list, ignored: noAgent},
	{name: "node-taint", kind: list, ignored: noAgent},
	{name: "node-external-ip", kind: commas, ignored: noAgent},
	{name: "disable-kube-proxy", kind: boolean, ignored: noAgent},
	{name: "protect-kernel-defaults", kind: boolean, ignored: noAgent},
	{name: "selinux", kind: boolean, ignored: noAgent},
	{name: "snapshotter", ignored: noAgent},
	{name: "prefer-bundled-bin", kind: boolean, ignored: noAgent},
	{name: "flannel-backend", ignored: noNetwork},
	{name: "flannel-iface", ignored: noNetwork},
	{name: "disable-network-policy", kind: boolean, ignored: noNetwork},
	{name: "egress-selector-mode", ignored: noNetwork},
	{name: "cluster-cidr", kind: commas, ignored: noNetwork},
	{name: "cluster-dns", kind: commas, ignored: noNetwork},
	{name: "disable-scheduler", kind: boolean, ignored: noScheduler},
	{name: "kube-scheduler-arg", kind: list, ignored: noScheduler},
	{name: "disable", kind: commas, ignored: noAddons},
	{name: "disable-helm-controller", kind: boolean, ignored: noAddons},
	{name: "disable-cloud-controller", kind: boolean, ignored: noAddons},
	{name: "default-local-storage-path", ignored: noAddons},
	{name: "system-default-registry", ignored: noAddons},
	{name: "token", short: "t", env: "K3S_TOKEN", ignored: noJoin},
	{name: "token-file", env: "K3S_TOKEN_FILE", ignored: noJoin},
	{name: "agent-token", env: "K3S_AGENT_TOKEN", ignored: noJoin},
	{name: "agent-token-file", env: "K3S_AGENT_TOKEN_FILE", ignored: noJoin},
}

// lookup finds a flag by its long or, of one letter, its short name.
func lookup(name string) (flag, bool) {
	for _, f := range flags {
		if f.name == name || (f.short != "" && f.short == name) {
			return f, true
		}
	}
	return flag{}, false
}
