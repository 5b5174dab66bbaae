package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// asProgram makes the test binary behave as the program itself, so that the tests drive the
// real process, signals included, without a second link of 190 MB.
const asProgram = "TESTBED_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// patience bounds every wait of these tests; they poll and end as soon as they can.
const patience = 60 * time.Second

// instance is one server process on a data directory.
type instance struct {
	t       *testing.T
	dir     string
	port    int
	command *exec.Cmd
	stderr  *lockedBuffer
	ended   chan struct{}
}

// program prepares a run of the program with these arguments.
func program(args ...string) (*exec.Cmd, *lockedBuffer) {
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), asProgram+"=1")
	stderr := &lockedBuffer{}
	command.Stdout, command.Stderr = stderr, stderr
	return command, stderr
}

// start runs a server and returns at once.
func start(t *testing.T, dir string, port int, extra ...string) *instance {
	t.Helper()
	config := filepath.Join(dir, "config.yaml")
	if _, err := os.Stat(config); err != nil {
		if err := os.WriteFile(config, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command, stderr := program(append([]string{
		"server", "--config", config, "--data-dir", filepath.Join(dir, "data"),
		"--https-listen-port", fmt.Sprint(port), "--bind-address", "127.0.0.1", "--node-name", "node-a",
		"--write-kubeconfig", filepath.Join(dir, "admin.yaml"), "--disable-agent",
	}, extra...)...)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s := &instance{t, dir, port, command, stderr, make(chan struct{})}
	go func() { _ = command.Wait(); close(s.ended) }()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-s.ended
		if t.Failed() {
			t.Logf("server log:\n%s", stderr)
		}
	})
	return s
}

// stop sends SIGTERM and says how long the end took.
func (s *instance) stop() time.Duration {
	s.t.Helper()
	asked := time.Now()
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatal("the server does not stop")
	}
	if code := s.command.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("exit code %d", code)
	}
	return time.Since(asked)
}

// admin waits until the server is ready and returns a client by its kubeconfig.
func (s *instance) admin() (*rest.Config, *kubernetes.Clientset) {
	s.t.Helper()
	var config *rest.Config
	var client *kubernetes.Clientset
	s.poll("readiness", func(ctx context.Context) (err error) {
		if config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "admin.yaml")); err != nil {
			return err
		}
		if client, err = kubernetes.NewForConfig(config); err != nil {
			return err
		}
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	return config, client
}

// serves waits until a handshake that verifies the name succeeds.
func (s *instance) serves(name string) {
	s.t.Helper()
	s.poll("certificate for "+name, func(context.Context) error { return s.handshake(name) })
}

// handshake is what a client does that uses this name.
func (s *instance) handshake(name string) error {
	text, err := os.ReadFile(filepath.Join(s.dir, "data", "server", "tls", "server-ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: name}}
	connection, err := dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err == nil {
		_ = connection.Close()
	}
	return err
}

// poll repeats a question until it is answered without error. It fails early when the
// server has ended.
func (s *instance) poll(what string, ask func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-s.ended:
			s.t.Fatalf("%s: the server has ended; last answer: %v", what, err)
		case <-ctx.Done():
			s.t.Fatalf("%s: not within %s; last answer: %v", what, patience, err)
		}
	}
}

// freePort is a loopback port no one uses.
func freePort(t *testing.T) int {
	t.Helper()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Close()
	return probe.Addr().(*net.TCPAddr).Port
}

// shortDir is a fresh folder whose path leaves room for kine's socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// lockedBuffer collects a process's output while tests look at it.
type lockedBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return strings.ToValidUTF8(b.buffer.String(), "?")
}
