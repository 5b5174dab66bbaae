// Package server starts and stops the parts in order: front listener, kine, kube-apiserver,
// kube-controller-manager; backwards at the end, where kube-apiserver, of which nothing is on disk, ends last.
//
// Guarantees: READY is written when /readyz is fine; SIGTERM and SIGINT end everything within
// seconds and without losing an acknowledged write; a part that dies ends the process.
// Failure: the first cause, as an error.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/erikdubbelboer/gspt"
	"github.com/sirupsen/logrus"

	"config-weaver/testbed/internal/config"
	"config-weaver/testbed/internal/controlplane"
	"config-weaver/testbed/internal/front"
	"config-weaver/testbed/internal/pki"
)

// Run serves until a signal comes or a part fails.
func Run(options config.Options) error {
	setUpLogs(options.Debug)
	for _, line := range options.Ignored {
		logrus.Debug(line)
	}
	// Arguments may hold secrets; k3s wipes its own in the same way.
	gspt.SetProcTitle("k3s server")

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)

	tcp, err := front.Bind(options.BindAddress, options.Port)
	if err != nil {
		return err
	}
	defer tcp.Close()
	serverDir := filepath.Join(options.DataDir, "server")
	unlock, err := lock(serverDir)
	if err != nil {
		return err
	}
	defer unlock()

	s, err := prepare(options, tcp, serverDir)
	if err != nil {
		return err
	}
	return s.run(signals)
}

// server is everything that is known before the first part starts.
type server struct {
	options   config.Options
	dir       string
	certs     pki.Tree
	names     []string
	tcp       net.Listener
	apiserver controlplane.APIServer
	notify    notifier
	failed    chan error // the first part that ends early
}

// prepare makes certificates and kubeconfigs.
func prepare(options config.Options, tcp net.Listener, dir string) (*server, error) {
	names := pki.Names(options.NodeName, options.ClusterDomain, options.ServiceIP, pki.ThisHost(), options.TLSSANs)
	certs, err := pki.LoadTree(dir, pki.Names(options.NodeName, options.ClusterDomain, options.ServiceIP, pki.Host{}, nil))
	if err != nil {
		return nil, err
	}
	backendPort, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &server{options: options, dir: dir, certs: certs, names: names, tcp: tcp, notify: takeNotifier(), failed: make(chan error, 4)}
	s.apiserver = controlplane.APIServer{
		Port: backendPort, CertDir: filepath.Join(dir, "tls", "temporary-certs"),
		ServiceCIDR: options.ServiceCIDR, ClusterDomain: options.ClusterDomain,
		Certs: certs, ExtraArgs: options.APIServerArgs,
	}
	controller, err := pki.Kubeconfig(s.apiserver.URL(), certs.ServerCA, certs.Controller)
	if err != nil {
		return nil, err
	}
	if err := pki.WriteFile(s.controllerKubeconfig(), controller, 0o600); err != nil {
		return nil, err
	}
	admin, err := pki.Kubeconfig(adminURL(options.BindAddress, options.Port), certs.ServerCA, certs.Admin)
	if err != nil {
		return nil, err
	}
	return s, pki.WriteFile(options.Kubeconfig, admin, options.KubeconfigMode)
}

func (s *server) controllerKubeconfig() string {
	return filepath.Join(s.dir, "cred", "controller.kubeconfig")
}

// run starts the parts, waits, and stops them in reverse.
func (s *server) run(signals <-chan os.Signal) (err error) {
	var parts stack
	defer func() {
		s.notify.tell(daemon.SdNotifyStopping)
		surviveFatal()
		parts.stop(signals)
	}()

	// The front is made first, so that damage is found before anything runs, and served last.
	frontCtx, stopFront := context.WithCancel(context.Background())
	defer stopFront()
	listener, err := front.Secure(frontCtx, s.tcp, s.certs, s.names, s.options.TLSSANSecurity)
	if err != nil {
		return err
	}
	web, err := listener.NewServer(s.apiserver.URL(), s.certs)
	if err != nil {
		return err
	}

	// At the bottom, and not waited for: it ends with the process. Ended before kine, it would have each of kine's
	// watches ask a closed channel again and again until that is noticed: 10 ms of a processor for each of a hundred.
	apiCtx, stopAPI := context.WithCancel(context.Background())
	parts.push("kube-apiserver", apiPatience, stopAPI, func() {})

	datastoreCtx, stopDatastore := context.WithCancel(context.Background())
	datastore, err := controlplane.StartDatastore(datastoreCtx, s.dir)
	if err != nil {
		stopDatastore()
		return err
	}
	parts.push("kine", kinePatience, stopDatastore, datastore.Wait)
	s.apiserver.Etcd = datastore.Endpoint

	serve, err := s.apiserver.Prepare(apiCtx)
	if err != nil {
		return err
	}
	_ = s.spawn(apiCtx, "kube-apiserver", serve)

	controllersCtx, stopControllers := context.WithCancel(context.Background())
	parts.push("kube-controller-manager", controllersPatience, stopControllers, s.spawn(controllersCtx, "kube-controller-manager", s.runControllers))

	serveFront := func(context.Context) error { return ignoreClosed(web.Serve(listener)) }
	parts.push("listener", frontPatience, func() { stopFront(); closeServer(web) }, s.spawn(frontCtx, "listener", serveFront))
	_ = s.spawn(frontCtx, "start-up", func(ctx context.Context) error { return s.announce(ctx, listener) })

	select {
	case got := <-signals:
		logrus.Infof("stopping on %s", got)
		return nil
	case err := <-s.failed:
		return err
	}
}

// runControllers waits for the API server, as k3s does.
func (s *server) runControllers(ctx context.Context) error {
	if err := s.waitReady(ctx); err != nil {
		return ignoreCancelled(err)
	}
	return controlplane.Controllers{
		Kubeconfig: s.controllerKubeconfig(), CertDir: s.apiserver.CertDir,
		Certs: s.certs, ExtraArgs: s.options.ControllerArgs,
	}.Run(ctx)
}

// announce connects the certificate to the cluster and tells the service manager.
func (s *server) announce(ctx context.Context, listener *front.Listener) error {
	if err := s.waitReady(ctx); err != nil {
		return ignoreCancelled(err)
	}
	if err := s.waitNamespace(ctx); err != nil {
		return ignoreCancelled(err)
	}
	if err := listener.Connect(s.client()); err != nil {
		return err
	}
	logrus.Infof("ready: https://%s, kubeconfig %s", s.tcp.Addr(), s.options.Kubeconfig)
	s.notify.tell(daemon.SdNotifyReady)
	return nil
}

// spawn runs a part; the returned function waits for its end. An end with an error, or
// before it was asked to end, is reported; start-up work may end whenever it is done.
func (s *server) spawn(ctx context.Context, name string, work func(context.Context) error) func() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := work(ctx)
		if err == nil && ctx.Err() == nil && name != "start-up" {
			err = fmt.Errorf("%s ended by itself", name)
		}
		if err != nil && ctx.Err() == nil {
			s.failed <- err
		}
	}()
	return func() { <-done }
}

// closeServer gives short requests a moment; watches never end by themselves.
func closeServer(web *http.Server) {
	grace, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if web.Shutdown(grace) != nil {
		_ = web.Close()
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func ignoreCancelled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
