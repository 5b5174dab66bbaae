// Package controlplane runs the upstream parts of a control plane inside this process:
// kine (SQLite), kube-apiserver and kube-controller-manager.
//
// Guarantees: each part ends when its context does; none binds more than loopback or a unix
// socket. Failure: a part that ends early returns an error with its name.
package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	kine "github.com/k3s-io/kine/pkg/app"
	"github.com/k3s-io/kine/pkg/endpoint"
)

// Datastore is a running kine.
type Datastore struct {
	Endpoint string // for --etcd-servers
	done     *sync.WaitGroup
}

// StartDatastore opens <serverDir>/db/state.db and serves it on a socket beside it.
func StartDatastore(ctx context.Context, serverDir string) (Datastore, error) {
	dir := filepath.Join(serverDir, "db")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Datastore{}, fmt.Errorf("cannot create the database folder: %w", err)
	}
	socket, err := socketPath(dir)
	if err != nil {
		return Datastore{}, err
	}
	// kine's own flags and defaults, its parameters as k3s sets them.
	config := kine.Config([]string{
		"--listen-address=unix://" + socket,
		"--endpoint=sqlite://" + filepath.Join(dir, "state.db") + "?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate",
		"--metrics-bind-address=0",
	})
	config.WaitGroup = &sync.WaitGroup{}
	etcd, err := endpoint.Listen(ctx, config)
	if err != nil {
		return Datastore{}, fmt.Errorf("cannot open the database in %s: %w (is the directory writable, the disk full?)", dir, err)
	}
	return Datastore{Endpoint: etcd.Endpoints[0], done: config.WaitGroup}, nil
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
