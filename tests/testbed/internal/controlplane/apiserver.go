package controlplane

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"config-weaver/testbed/internal/pki"
)

// APIServer says how kube-apiserver is to run.
type APIServer struct {
	Etcd          string // kine's endpoint
	Port          int    // loopback
	CertDir       string
	ServiceCIDR   string
	ClusterDomain string
	Certs         pki.Tree
	ExtraArgs     []string
}

// URL is where the API server itself listens, behind the front listener.
func (a APIServer) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", a.Port) }

// Prepare parses and validates; the returned function serves until its context ends.
func (a APIServer) Prepare(ctx context.Context) (func(context.Context) error, error) {
	// Upstream's options and Run are used without its command, because the command installs
	// a signal handler of its own, and the parts must stop in a fixed order.
	opts := options.NewServerRunOptions()
	if err := parse("kube-apiserver", opts.Flags(), a.args()); err != nil {
		return nil, err
	}
	if err := opts.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("kube-apiserver: %w", err)
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	completed, err := opts.Complete(ctx)
	if err != nil {
		return nil, fmt.Errorf("kube-apiserver: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("kube-apiserver: %w", utilerrors.NewAggregate(errs))
	}
	return func(ctx context.Context) error {
		if err := serve(ctx, completed); err != nil {
			return fmt.Errorf("kube-apiserver: %w", err)
		}
		return nil
	}, nil
}

// args are the flags k3s itself gives, less what serves agents and pods.
func (a APIServer) args() []string {
	issuer := "https://kubernetes.default.svc." + a.ClusterDomain
	return mergeArgs(map[string]string{
		"advertise-address":         "127.0.0.1",
		"allow-privileged":          "true",
		"anonymous-auth":            "false",
		"api-audiences":             issuer + ",k3s",
		"authorization-mode":        "Node,RBAC",
		"bind-address":              "127.0.0.1",
		"cert-dir":                  a.CertDir,
		"client-ca-file":            a.Certs.ClientCA.CertFile,
		"enable-admission-plugins":  "NodeRestriction",
		"enable-aggregator-routing": "true",
		// A loopback address may not be in an Endpoints object, and no pod asks for one.
		"endpoint-reconciler-type":           "none",
		"etcd-servers":                       a.Etcd,
		"profiling":                          "false",
		"proxy-client-cert-file":             a.Certs.AuthProxy.CertFile,
		"proxy-client-key-file":              a.Certs.AuthProxy.KeyFile,
		"requestheader-allowed-names":        pki.AuthProxyName,
		"requestheader-client-ca-file":       a.Certs.RequestHeaderCA.CertFile,
		"requestheader-extra-headers-prefix": "X-Remote-Extra-",
		"requestheader-group-headers":        "X-Remote-Group",
		"requestheader-uid-headers":          "X-Remote-Uid",
		"requestheader-username-headers":     "X-Remote-User",
		"secure-port":                        strconv.Itoa(a.Port),
		"service-account-issuer":             issuer,
		"service-account-key-file":           a.Certs.TokenKeyFile,
		"service-account-signing-key-file":   a.Certs.TokenKeyFile,
		"service-cluster-ip-range":           a.ServiceCIDR,
		"service-node-port-range":            "30000-32767",
		"storage-backend":                    "etcd3",
		"tls-cert-file":                      a.Certs.Serving.CertFile,
		"tls-private-key-file":               a.Certs.Serving.KeyFile,
	}, a.ExtraArgs)
}

// parse reads flags into an upstream component's flag sets.
func parse(component string, sets cliflag.NamedFlagSets, args []string) error {
	all := pflag.NewFlagSet(component, pflag.ContinueOnError)
	all.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	all.Usage = func() {}
	for _, set := range sets.FlagSets {
		all.AddFlagSet(set)
	}
	if err := all.Parse(args); err != nil {
		return fmt.Errorf("--%s-arg: %w", component, err)
	}
	return nil
}
