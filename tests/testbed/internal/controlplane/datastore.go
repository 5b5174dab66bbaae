// Package controlplane runs the upstream parts of a control plane inside this process:
// kine (SQLite), kube-apiserver and kube-controller-manager.
//
// Guarantees: each part ends when its context does; none binds more than loopback or a unix
// socket. Failure: a part that ends early returns an error with its name.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/k3s-io/kine/pkg/drivers"
	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/drivers/sqlite"
	kine "github.com/k3s-io/kine/pkg/server"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Settings of kine's own endpoint package, which is not used: it brings every other database
// with it, 319 packages to compile.
const (
	minRetain      = 1000
	compactBatch   = 1000
	compactTimeout = 5 * time.Second
	pollBatch      = 500
	idlePool       = 20
	idleTime       = 2 * time.Minute
	notifyInterval = 5 * time.Second
	etcdVersion    = "3.6.11" // tells the API server that watches can notify of progress
	keepAliveMin   = 5 * time.Second
	keepAlive      = 2 * time.Hour
	keepAliveLimit = 20 * time.Second
	maxRequest     = 3 << 19 // etcd's limit, 1.5 MiB
	grpcOverhead   = 512 << 10
)

// Datastore is a running kine.
type Datastore struct {
	Endpoint string // for --etcd-servers
	done     *sync.WaitGroup
}

// StartDatastore opens <serverDir>/db/state.db and serves it on a socket next to it.
func StartDatastore(ctx context.Context, serverDir string) (Datastore, error) {
	dir := filepath.Join(serverDir, "db")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Datastore{}, fmt.Errorf("cannot create the database folder: %w", err)
	}
	socket, err := socketPath(dir)
	if err != nil {
		return Datastore{}, err
	}
	done := &sync.WaitGroup{}
	backendCtx, stopBackend := context.WithCancel(context.Background())
	backend, err := open(backendCtx, done, filepath.Join(dir, "state.db"))
	var listener net.Listener
	if err == nil {
		listener, err = listen(socket)
	}
	if err != nil {
		stopBackend()
		return Datastore{}, fmt.Errorf("cannot open the database in %s: %w (is the directory writable, the disk full?)", dir, err)
	}
	server := grpcServer()
	kine.New(backend, "unix", notifyInterval, etcdVersion).Register(server)
	go func() {
		if err := server.Serve(listener); err != nil {
			logrus.Errorf("kine: %v", err)
		}
	}()
	// The watches end with the database: see the order of the ends in the package server.
	go func() {
		<-ctx.Done()
		stopBackend()
		done.Wait()
		server.Stop()
	}()
	endpoint := "unix://" + socket
	logrus.Infof("Kine available at %s", endpoint)
	return Datastore{Endpoint: endpoint, done: done}, nil
}

// open opens the database, its parameters as k3s sets them, and creates its tables.
func open(ctx context.Context, done *sync.WaitGroup, path string) (kine.Backend, error) {
	backend, _, err := sqlite.NewVariant(ctx, done, "sqlite3", &drivers.Config{
		DataSourceName:       path + "?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate",
		ConnectionPoolConfig: generic.ConnectionPoolConfig{MaxIdle: idlePool, MaxIdleTime: idleTime},
		CompactTimeout:       compactTimeout,
		CompactMinRetain:     minRetain,
		CompactBatchSize:     compactBatch,
		PollBatchSize:        pollBatch,
	})
	if err != nil {
		return nil, err
	}
	return backend, backend.Start(ctx)
}

// listen binds the socket, in place of one that a killed server has left.
func listen(socket string) (net.Listener, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	return listener, os.Chmod(socket, 0o600)
}

func grpcServer() *grpc.Server {
	return grpc.NewServer(
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepAliveMin}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepAlive, Timeout: keepAliveLimit}),
		grpc.MaxConcurrentStreams(math.MaxUint32),
		grpc.MaxRecvMsgSize(maxRequest+grpcOverhead),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.StreamInterceptor(onDemand),
	)
}

// Wait returns when everything is flushed, after the context has ended.
func (d Datastore) Wait() { d.done.Wait() }

// socketPath keeps within the kernel's 108 bytes for the path of a unix socket.
func socketPath(dir string) (string, error) {
	const longest = 107
	socket := filepath.Join(dir, "kine.sock")
	if len(socket) > longest {
		return "", fmt.Errorf("--data-dir is too deep: %s is longer than the %d bytes a unix socket may have; choose a shorter path", socket, longest)
	}
	return socket, nil
}
