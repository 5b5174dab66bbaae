package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Defaults of k3s for a server started as root.
const (
	SystemKubeconfig = "/etc/rancher/k3s/k3s.yaml"
	systemConfig     = "/etc/rancher/k3s/config.yaml"
	systemDataDir    = "/var/lib/rancher/k3s"
)

// ErrHelp says that the caller asked for the list of flags.
var ErrHelp = errors.New("help requested")

// Options is what a server run needs to know. All values are checked.
type Options struct {
	Debug          bool
	DataDir        string // absolute
	BindAddress    string // "" is every address
	Port           int
	NodeName       string
	TLSSANs        []string // --tls-san, --node-ip and --advertise-address
	TLSSANSecurity bool
	ServiceCIDR    string
	ServiceIP      net.IP // the first address of ServiceCIDR: the API's own service
	ClusterDomain  string
	Kubeconfig     string
	KubeconfigMode os.FileMode
	APIServerArgs  []string
	ControllerArgs []string
	Ignored        []string // flags given that have no effect, each with its reason
}

// Load merges files, environment and command line, and checks the outcome.
func Load(args []string, getenv func(string) string) (Options, error) {
	line, err := parseLine(args)
	if err != nil {
		return Options{}, err
	}
	env := readEnv(getenv)

	// k3s lets the variable win for this one flag.
	configPath, named := systemConfig, false
	if path := line.last("config", ""); path != "" {
		configPath, named = path, true
	}
	if path := env.last("config", ""); path != "" {
		configPath, named = path, true
	}
	files, err := readFiles(configPath, named)
	if err != nil {
		return Options{}, err
	}
	env.overlay(files)
	env.overlay(line)
	return check(env)
}

// Help lists every flag, those without effect last.
func Help() string {
	var active, ignored strings.Builder
	for _, f := range flags {
		name := "--" + f.name
		if f.short != "" {
			name += ", -" + f.short
		}
		if f.ignored == "" {
			fmt.Fprintf(&active, "  %-30s %s\n", name, f.usage)
		} else {
			fmt.Fprintf(&ignored, "  %-30s %s\n", name, f.ignored)
		}
	}
	return "k3s-testbed server [flags]; each flag is also a key of the configuration file\n\n" +
		active.String() + "\nAccepted without effect:\n" + ignored.String()
}

// parseLine reads the command line; values of a repeated flag add up.
func parseLine(args []string) (values, error) {
	set := pflag.NewFlagSet("server", pflag.ContinueOnError)
	set.SetOutput(discard{})
	set.SortFlags = false
	for _, f := range flags {
		set.VarPF(&collector{boolean: f.kind == boolean}, f.name, f.short, f.usage)
		if f.kind == boolean {
			set.Lookup(f.name).NoOptDefVal = "true"
		}
	}
	if err := set.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil, ErrHelp
		}
		return nil, fmt.Errorf("%w (`k3s-testbed server --help` lists the flags)", err)
	}
	if rest := set.Args(); len(rest) > 0 {
		return nil, fmt.Errorf("unexpected argument %q: server takes flags only", rest[0])
	}
	line := values{}
	set.Visit(func(f *pflag.Flag) {
		if c, ok := f.Value.(*collector); ok {
			line.set(f.Name, c.items, "--"+f.Name, false)
		}
	})
	return line, nil
}

func readEnv(getenv func(string) string) values {
	env := values{}
	for _, f := range flags {
		if f.env == "" {
			continue
		}
		if text := getenv(f.env); text != "" {
			env.set(f.name, []string{text}, f.env, false)
		}
	}
	return env
}

// check turns merged values into options.
func check(v values) (Options, error) {
	var o Options
	var err error
	fail := func(name, format string, args ...any) error {
		return fmt.Errorf("%s: %s", v[name].origin, fmt.Sprintf(format, args...))
	}

	for _, f := range flags {
		val, given := v[f.name]
		if given && f.kind == boolean {
			if _, err := parseBool(v.last(f.name, "")); err != nil {
				return o, fail(f.name, "%q is not true or false", v.last(f.name, ""))
			}
		}
		if given && f.ignored != "" {
			o.Ignored = append(o.Ignored, fmt.Sprintf("%s: no effect: %s", val.origin, f.ignored))
		}
	}
	o.Debug, _ = parseBool(v.last("debug", "false"))
	o.TLSSANSecurity, _ = parseBool(v.last("tls-san-security", "true"))

	if o.Port, err = strconv.Atoi(v.last("https-listen-port", "6443")); err != nil || o.Port < 1 || o.Port > 65535 {
		return o, fail("https-listen-port", "%q is not a port (1 to 65535)", v.last("https-listen-port", ""))
	}
	o.BindAddress = v.last("bind-address", "")
	if o.BindAddress != "" && net.ParseIP(o.BindAddress) == nil {
		return o, fail("bind-address", "%q is not an IP address", o.BindAddress)
	}
	for _, name := range []string{"advertise-address", "node-ip"} {
		for _, address := range v.parts(name) {
			if net.ParseIP(address) == nil {
				return o, fail(name, "%q is not an IP address", address)
			}
		}
	}
	o.TLSSANs = append(append(v.parts("tls-san"), v.parts("node-ip")...), v.parts("advertise-address")...)

	o.ServiceCIDR = "10.43.0.0/16"
	if given := v.parts("service-cidr"); len(given) > 0 {
		o.ServiceCIDR = strings.Join(given, ",")
	}
	first, _, _ := strings.Cut(o.ServiceCIDR, ",")
	prefix, err := netip.ParsePrefix(first)
	if err != nil {
		return o, fail("service-cidr", "%q is not a network such as 10.43.0.0/16", first)
	}
	o.ServiceIP = prefix.Masked().Addr().Next().AsSlice()
	o.ClusterDomain = v.last("cluster-domain", "cluster.local")

	mode := v.last("write-kubeconfig-mode", "0600")
	bits, err := strconv.ParseUint(mode, 8, 32)
	if err != nil || bits > 0o777 {
		return o, fail("write-kubeconfig-mode", "%q is not an octal file mode such as \"0600\"", mode)
	}
	o.KubeconfigMode = os.FileMode(bits)

	o.APIServerArgs, o.ControllerArgs = v.all("kube-apiserver-arg"), v.all("kube-controller-manager-arg")
	for _, name := range []string{"kube-apiserver-arg", "kube-controller-manager-arg"} {
		for _, arg := range v.all(name) {
			if key, _, found := strings.Cut(arg, "="); !found || key == "" {
				return o, fail(name, "%q is not key=value", arg)
			}
		}
	}
	if o.NodeName = v.last("node-name", ""); o.NodeName == "" {
		host, err := os.Hostname()
		if err != nil {
			return o, fmt.Errorf("the host name is unknown, give --node-name: %w", err)
		}
		o.NodeName = strings.ToLower(host)
	}
	return o, resolvePaths(v, &o)
}

// resolvePaths makes the two paths absolute and applies k3s' defaults.
func resolvePaths(v values, o *Options) error {
	kubeconfig, err := ofUser(SystemKubeconfig, ".kube", "k3s.yaml")
	if err != nil {
		return err
	}
	if o.DataDir, err = DataDir(v.last("data-dir", "")); err != nil {
		return err
	}
	o.Kubeconfig, err = filepath.Abs(v.last("write-kubeconfig", kubeconfig))
	return err
}

// DataDir is the directory given, or k3s' default for this user, absolute.
func DataDir(given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	return ofUser(systemDataDir, ".rancher", "k3s")
}

// ofUser is the path for root, or that below the home directory of anyone else.
func ofUser(system string, below ...string) (string, error) {
	if os.Geteuid() == 0 {
		return system, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory, give --data-dir and --write-kubeconfig: %w", err)
	}
	return filepath.Join(append([]string{home}, below...)...), nil
}

// parseBool also knows the words of YAML 1.1, which k3s' parser accepts.
func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "yes", "on":
		return true, nil
	case "no", "off":
		return false, nil
	}
	return strconv.ParseBool(text)
}

// collector is a pflag value that keeps every occurrence, unsplit.
type collector struct {
	items   []string
	boolean bool
}

func (c *collector) Set(text string) error {
	c.items = append(c.items, text)
	return nil
}

func (c *collector) String() string { return strings.Join(c.items, ",") }

func (c *collector) Type() string {
	if c.boolean {
		return "bool"
	}
	return "string"
}

// discard swallows pflag's own usage text; Load's error says what is wrong.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
