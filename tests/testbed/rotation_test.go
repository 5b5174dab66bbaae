package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// What was measured on a k3s 1.36.3, step by step: how a name gets out of the certificate, and what does not help.
func TestRotation(t *testing.T) {
	dir, port := shortDir(t), freePort(t)
	s := start(t, dir, port, "--tls-san=kept.example,stale.example")
	_, client := s.admin()
	s.serves("stale.example")
	waitForSecret(s, client, "stale.example")
	s.stop()

	rotate(t, dir)
	s = start(t, dir, port, "--tls-san=kept.example")
	_, client = s.admin()
	s.serves("kept.example")
	s.carries("stale.example", true, "rotated alone")

	s.annotate(client, `{"listener.cattle.io/cn-stale.example":null}`, `"listener.cattle.io/cn-stale.example":"`, false)
	s.stop()
	s = start(t, dir, port, "--tls-san=kept.example")
	s.admin()
	s.carries("stale.example", true, "annotation removed and not rotated")
	s.stop()

	rotate(t, dir)
	s = start(t, dir, port, "--tls-san=kept.example")
	_, client = s.admin()
	s.serves("kept.example")
	s.carries("stale.example", false, "annotation removed, then rotated")

	// A frozen certificate takes no name, and is not renewed either.
	s.annotate(client, `{"listener.cattle.io/static":"true"}`, `"listener.cattle.io/static":"true"`, true)
	s.stop()
	s = start(t, dir, port, "--tls-san=kept.example,new.example")
	s.admin()
	// One that is not frozen takes less than two seconds.
	for since := time.Now(); time.Since(since) < 4*time.Second; time.Sleep(100 * time.Millisecond) {
		if err := s.handshake("new.example"); err == nil {
			t.Fatal("a frozen certificate has taken a name")
		}
	}
}

func TestRotationRefused(t *testing.T) {
	dir := shortDir(t)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "only rotate is known"},
		{[]string{"rotate-ca", "--service", "k3s-server"}, 2, "only rotate is known"},
		{[]string{"rotate"}, 2, "only k3s-server is known"},
		{[]string{"rotate", "--service", "admin"}, 2, "only k3s-server is known"},
		{[]string{"rotate", "--service=k3s-server", "--data-dir", dir}, 1, "no server has run on " + dir},
	} {
		command, output := program(append([]string{"certificate"}, test.args...)...)
		_ = command.Run()
		if got := output.String(); command.ProcessState.ExitCode() != test.code || !strings.Contains(got, test.want) {
			t.Errorf("%v: exit %d, want %d and %q:\n%s", test.args, command.ProcessState.ExitCode(), test.code, test.want, got)
		}
	}
}

func rotate(t *testing.T, dir string) {
	t.Helper()
	command, output := program("certificate", "rotate", "--service", "k3s-server", "--data-dir", filepath.Join(dir, "data"))
	if err := command.Run(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

// carries looks for a name in the served certificate, and asks for another: right after a start the filter lets every
// name in that someone asks for.
func (s *instance) carries(name string, want bool, after string) {
	s.t.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}}
	connection, err := dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		s.t.Fatal(err)
	}
	defer connection.Close()
	served := connection.(*tls.Conn).ConnectionState().PeerCertificates[0].DNSNames
	if slices.Contains(served, name) != want {
		s.t.Errorf("%s: %s is served: %v", after, name, !want)
	}
}

// annotate changes annotations of the stored certificate until its file has a text, or has it no more, and stays so for
// a while: a server that has just started writes its own state over the Secret.
func (s *instance) annotate(client kubernetes.Interface, annotations, text string, want bool) {
	s.t.Helper()
	patch := []byte(`{"metadata":{"annotations":` + annotations + `}}`)
	otherwise := time.Now()
	s.poll("change of the Secret", func(ctx context.Context) error {
		if _, err := client.CoreV1().Secrets("kube-system").Patch(ctx, "k3s-serving", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
		content, err := os.ReadFile(filepath.Join(s.dir, "data", "server", "tls", "dynamic-cert.json"))
		if err != nil || strings.Contains(string(content), text) != want {
			otherwise = time.Now()
		}
		if time.Since(otherwise) < 2*time.Second {
			return fmt.Errorf("the file is not yet or not for long as it should be, %v", err)
		}
		return nil
	})
}
