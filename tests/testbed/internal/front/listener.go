// Package front is what clients see: the TLS port whose certificate dynamiclistener keeps,
// and the proxy that hands requests on to the API server.
//
// Guarantees: certificates come from the very code k3s runs, so names are added, stored and
// kept as k3s does; who a client is, is decided here or by the API server, never by a
// header the client sent. Failure: while the API server is away, 503.
package front

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/rancher/dynamiclistener"
	"github.com/rancher/dynamiclistener/storage/file"
	"github.com/rancher/dynamiclistener/storage/kubernetes"
	"github.com/rancher/dynamiclistener/storage/memory"
	"github.com/rancher/wrangler/v3/pkg/generated/controllers/core"
	"k8s.io/client-go/rest"

	"config-weaver/testbed/internal/pki"
)

// renewDays is how many days before its end a served certificate is renewed, as in k3s.
const renewDays = 120

// regenerate is the file by which `certificate rotate` asks the next start for a new certificate.
const regenerate = "dynamic-cert-regenerate"

// AskForRegeneration leaves that file in a directory of certificates.
func AskForRegeneration(certs string) error {
	return pki.WriteFile(filepath.Join(certs, regenerate), nil, 0o600)
}

// Listener is the TLS port.
type Listener struct {
	net.Listener
	names http.Handler // adds the address a client asked for to the certificate
	core  *atomic.Pointer[core.Factory]
}

// Bind takes the TCP port. Done before anything else, so that a taken port costs nothing.
func Bind(address string, port int) (net.Listener, error) {
	host := address
	if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
		host = "[" + address + "]"
	}
	tcp, err := dynamiclistener.NewTCPListener(host, port)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken by another process: stop it (`ss -ltnp 'sport = :%d'` names it) or choose another --https-listen-port", net.JoinHostPort(address, fmt.Sprint(port)), port)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; check --bind-address and --https-listen-port", net.JoinHostPort(address, fmt.Sprint(port)), err)
	}
	return tcp, nil
}

// Secure lays TLS over the port. The certificate is kept in memory, in dynamic-cert.json
// and, once Connect was called, in the Secret kube-system/k3s-serving.
func Secure(ctx context.Context, tcp net.Listener, certs pki.Tree, names []string, strict bool) (*Listener, error) {
	l := &Listener{core: &atomic.Pointer[core.Factory]{}}
	path := filepath.Join(certs.Dir, "dynamic-cert.json")
	cached := file.New(path)
	if _, err := cached.Get(); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w; restore it, or remove it to have the certificate made again", path, err)
	}
	storage := kubernetes.New(ctx, l.core.Load, "kube-system", "k3s-serving", memory.NewBacked(cached))
	var err error
	l.Listener, l.names, err = dynamiclistener.NewListenerWithChain(tcp, storage, certs.ServerCA.Chain(), certs.ServerCA.Key, dynamiclistener.Config{
		CN:                  "k3s",
		Organization:        []string{"k3s"},
		SANs:                names,
		ExpirationDaysCheck: renewDays,
		FilterCN:            l.filter(names, strict),
		RegenerateCerts:     func() bool { return os.Remove(filepath.Join(certs.Dir, regenerate)) == nil },
		TLSConfig: &tls.Config{
			ClientAuth: tls.RequestClientCert, // verified in identify, for an answer in HTTP
			MinVersion: tls.VersionTLS12,
			NextProtos: []string{"h2", "http/1.1"},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot prepare the served certificate: %w", err)
	}
	return l, nil
}

// Connect lets the certificate be stored in the cluster. Call it when the API server is
// ready and has made kube-system.
func (l *Listener) Connect(config *rest.Config) error {
	factory, err := core.NewFactoryFromConfig(config)
	if err != nil {
		return fmt.Errorf("cannot make the client that stores the served certificate: %w", err)
	}
	l.core.Store(factory)
	return nil
}

// filter is --tls-san-security: names that clients ask for do not get into the certificate
// unless configured. Like k3s' own it starts to work when the cluster can be read, and the
// addresses of joined nodes, which k3s adds, do not exist here.
func (l *Listener) filter(names []string, strict bool) func(...string) []string {
	return func(asked ...string) []string {
		if !strict || l.core.Load() == nil {
			return asked
		}
		return slices.DeleteFunc(slices.Clone(asked), func(name string) bool { return !slices.Contains(names, name) })
	}
}
