package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// One server, looked at from all sides: a start costs seconds, a look costs none.
func TestServer(t *testing.T) {
	ctx := context.Background()
	ready := listenNotify(t)
	s := start(t, shortDir(t), freePort(t), "--tls-san=pi.example", "--kube-apiserver-arg=event-ttl=59m")
	config, client := s.admin()

	t.Run("tells the service manager", func(t *testing.T) { ready("READY=1") })
	t.Run("kubeconfig", func(t *testing.T) {
		info, err := os.Stat(filepath.Join(s.dir, "admin.yaml"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info, err)
		}
		if want := fmt.Sprintf("https://127.0.0.1:%d", s.port); config.Host != want {
			t.Errorf("server %s, want %s", config.Host, want)
		}
	})
	t.Run("client certificate is the admin", func(t *testing.T) {
		who, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil || who.Status.UserInfo.Username != "system:admin" {
			t.Errorf("%v, %v", who, err)
		}
	})
	t.Run("token of a ServiceAccount", func(t *testing.T) {
		waitForDefaultAccount(t, s, client, "default")
		answer, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		bearer := clientWith(t, rest.AnonymousClientConfig(config), func(c *rest.Config) { c.BearerToken = answer.Status.Token })
		who, err := bearer.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil || who.Status.UserInfo.Username != "system:serviceaccount:default:default" {
			t.Errorf("%v, %v", who, err)
		}
	})
	t.Run("a user named in a header is ignored", func(t *testing.T) {
		spoof := clientWith(t, rest.AnonymousClientConfig(config), nil)
		err := spoof.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces").
			SetHeader("X-Remote-User", "system:admin").SetHeader("X-Remote-Group", "system:masters").Do(ctx).Error()
		if !apierrors.IsUnauthorized(err) {
			t.Errorf("got %v, want 401", err)
		}
	})
	t.Run("impersonation is the API server's matter", func(t *testing.T) {
		other := clientWith(t, config, func(c *rest.Config) { c.Impersonate = rest.ImpersonationConfig{UserName: "someone"} })
		if _, err := other.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"someone"`) {
			t.Errorf("got %v, want 403 for someone", err)
		}
	})
	t.Run("a namespace gets its account and goes away", func(t *testing.T) {
		if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "brief"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		waitForDefaultAccount(t, s, client, "brief")
		if err := client.CoreV1().Namespaces().Delete(ctx, "brief", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.poll("end of namespace brief", func(ctx context.Context) error {
			_, err := client.CoreV1().Namespaces().Get(ctx, "brief", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("still there"), err)
		})
	})
	t.Run("schemas of all kinds", func(t *testing.T) {
		versions, err := client.Discovery().OpenAPIV3().Paths()
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range []string{"api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1", "apis/apiregistration.k8s.io/v1"} {
			found, ok := versions[version]
			if !ok {
				t.Errorf("%s is missing", version)
				continue
			}
			text, err := found.Schema("application/json")
			if err != nil || !strings.Contains(string(text), `"x-kubernetes-group-version-kind"`) {
				t.Errorf("%s: %v, %d bytes", version, err, len(text))
			}
		}
	})
	t.Run("names that clients ask for are not added", func(t *testing.T) {
		waitForSecret(s, client, "pi.example")
		for range 3 {
			if err := s.handshake("attacker.example"); err == nil {
				t.Fatal("an unconfigured name is served")
			}
		}
		s.serves("pi.example")
	})
	t.Run("arguments are wiped", func(t *testing.T) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.command.Process.Pid))
		if got := strings.TrimRight(string(text), " \x00"); err != nil || got != "k3s server" {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("a second server says whose port and data these are", func(t *testing.T) {
		for port, want := range map[int]string{s.port: fmt.Sprintf("127.0.0.1:%d is taken", s.port), freePort(t): "another testbed runs on"} {
			second := start(t, s.dir, port)
			<-second.ended
			if got := second.stderr.String(); second.command.ProcessState.ExitCode() != 1 || !strings.Contains(got, want) {
				t.Errorf("exit %d, %s", second.command.ProcessState.ExitCode(), got)
			}
		}
	})
	t.Run("stops in time with a watch open", func(t *testing.T) {
		watch, err := client.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Stop()
		took := s.stop()
		t.Logf("stopped after %s", took.Round(time.Millisecond))
		if took > 5*time.Second {
			t.Errorf("took %s", took)
		}
		ready("STOPPING=1")
	})
}

// A name added to the configuration appears after a restart, one removed from it stays, and
// what was acknowledged is still there.
func TestRestart(t *testing.T) {
	ctx := context.Background()
	dir, port := shortDir(t), freePort(t)
	s := start(t, dir, port, "--tls-san=first.example")
	_, client := s.admin()
	s.serves("first.example")
	waitForSecret(s, client, "first.example")
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"a": "b"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.stop()

	s = start(t, dir, port, "--tls-san=second.example")
	_, client = s.admin()
	s.serves("second.example")
	s.serves("first.example")
	waitForSecret(s, client, "second.example")
	got, err := client.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{})
	if err != nil || got.Data["a"] != "b" {
		t.Errorf("%v, %v", got, err)
	}

	// Power cut: what was acknowledged survives, and the next start heals.
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	s = start(t, dir, port)
	_, client = s.admin()
	if _, err := client.CoreV1().ConfigMaps("default").Get(ctx, "last", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	s.serves("second.example")
}

// A stop in the middle of the start ends in time and as a success, too.
func TestStopWhileStarting(t *testing.T) {
	s := start(t, shortDir(t), freePort(t))
	s.poll("the database", func(context.Context) error {
		if !strings.Contains(s.stderr.String(), "Kine available") {
			return errors.New("not open yet")
		}
		return nil
	})
	if took := s.stop(); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestRefusedStarts(t *testing.T) {
	for _, test := range []struct {
		what string
		args []string
		prep func(dir string) error
		code int
		want string
	}{
		{"unknown flag", []string{"--no-such-flag"}, nil, 2, "--no-such-flag"},
		{"unknown argument of the API server", []string{"--kube-apiserver-arg=no-such=1"}, nil, 1, "--no-such"},
		{"data directory is a file", nil, func(dir string) error { return os.WriteFile(filepath.Join(dir, "data"), nil, 0o600) }, 1, "--data-dir"},
		{"damaged CA", nil, func(dir string) error {
			tls := filepath.Join(dir, "data", "server", "tls")
			if err := os.MkdirAll(tls, 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(tls, "server-ca.crt"), []byte("x"), 0o600)
		}, 1, "server-ca.crt is damaged"},
		{"damaged certificate cache", nil, func(dir string) error {
			tls := filepath.Join(dir, "data", "server", "tls")
			if err := os.MkdirAll(tls, 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(tls, "dynamic-cert.json"), []byte("{"), 0o600)
		}, 1, "dynamic-cert.json cannot be read"},
	} {
		t.Run(test.what, func(t *testing.T) {
			dir := shortDir(t)
			if test.prep != nil {
				if err := test.prep(dir); err != nil {
					t.Fatal(err)
				}
			}
			s := start(t, dir, freePort(t), test.args...)
			<-s.ended
			if got := s.stderr.String(); s.command.ProcessState.ExitCode() != test.code || !strings.Contains(got, test.want) {
				t.Errorf("exit %d, want %d and %q:\n%s", s.command.ProcessState.ExitCode(), test.code, test.want, got)
			}
		})
	}
}

func TestVersionTellsATestbedFromAK3s(t *testing.T) {
	text := versionText()
	if !strings.HasPrefix(text, "k3s version v1.") || !strings.Contains(text, "+testbed1 (") || !strings.Contains(text, "\ngo version go1.") {
		t.Errorf("got %q", text)
	}
}

// waitForDefaultAccount: a namespace is fit for use when its default account exists.
func waitForDefaultAccount(t *testing.T, s *instance, client kubernetes.Interface, namespace string) {
	t.Helper()
	s.poll("default account of "+namespace, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// waitForSecret waits until the served certificate is stored in the cluster with this name.
func waitForSecret(s *instance, client kubernetes.Interface, name string) {
	s.t.Helper()
	s.poll("Secret with "+name, func(ctx context.Context) error {
		secret, err := client.CoreV1().Secrets("kube-system").Get(ctx, "k3s-serving", metav1.GetOptions{})
		if err == nil && secret.Annotations["listener.cattle.io/cn-"+name] != name {
			err = fmt.Errorf("annotations %v", secret.Annotations)
		}
		return err
	})
}

func clientWith(t *testing.T, config *rest.Config, change func(*rest.Config)) *kubernetes.Clientset {
	t.Helper()
	own := rest.CopyConfig(config)
	if change != nil {
		change(own)
	}
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// listenNotify plays the service manager for servers started from here on; the returned
// function waits for a state.
func listenNotify(t *testing.T) func(want string) {
	t.Helper()
	path := filepath.Join(shortDir(t), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return func(want string) {
		t.Helper()
		if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 256)
		for {
			n, err := socket.Read(buffer)
			if err != nil {
				t.Fatalf("no %s: %v", want, err)
			}
			if string(buffer[:n]) == want {
				return
			}
		}
	}
}
