package front

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generated/controllers/core"

	"config-weaver/testbed/internal/pki"
)

// frontAndBackend starts a front before a fake API server.
func frontAndBackend(t *testing.T, backend http.HandlerFunc) (string, pki.Tree) {
	t.Helper()
	names := []string{"localhost", "127.0.0.1"}
	certs, err := pki.LoadTree(t.TempDir(), names)
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewUnstartedServer(backend)
	serving, err := tls.LoadX509KeyPair(certs.Serving.CertFile, certs.Serving.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	api.TLS = &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequestClientCert}
	api.EnableHTTP2 = true
	api.StartTLS()
	t.Cleanup(api.Close)

	tcp, err := Bind("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	listener, err := Secure(ctx, tcp, certs, names, true)
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.NewServer(api.URL, certs)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "https://" + tcp.Addr().String(), certs
}

// client trusts the server CA and shows the given certificate, if any.
func client(t *testing.T, certs pki.Tree, pair *pki.Pair) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(certs.ServerCA.Cert)
	config := &tls.Config{RootCAs: roots}
	if pair != nil {
		loaded, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		// Shown whatever CAs the server says it knows.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &loaded, nil }
	}
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
}

// get asks until the front has its first certificate.
func get(t *testing.T, c *http.Client, request *http.Request) *http.Response {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		response, err := c.Do(request)
		if err == nil {
			t.Cleanup(func() { _ = response.Body.Close() })
			return response
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestIdentityComesFromTheCertificateAlone(t *testing.T) {
	url, certs := frontAndBackend(t, func(w http.ResponseWriter, r *http.Request) {
		peer := "none"
		if len(r.TLS.PeerCertificates) > 0 {
			peer = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		fmt.Fprintf(w, "peer=%s user=%s groups=%s extra=%s auth=%s impersonate=%s", peer,
			r.Header.Get("X-Remote-User"), r.Header["X-Remote-Group"], r.Header["X-Remote-Extra-Scopes"],
			r.Header.Get("Authorization"), r.Header.Get("Impersonate-User"))
	})
	for _, test := range []struct {
		what   string
		pair   *pki.Pair
		bearer string
		code   int
		want   string
	}{
		{"no credentials", nil, "", 200, "peer=none user= groups=[] extra=[] auth= impersonate=other"},
		{"a token", nil, "Bearer t", 200, "peer=none user= groups=[] extra=[] auth=Bearer t impersonate=other"},
		{"a certificate", &certs.Admin, "", 200, "peer=system:auth-proxy user=system:admin groups=[system:masters] extra=[] auth= impersonate=other"},
		{"a certificate and a token", &certs.Admin, "Bearer t", 200, "peer=system:auth-proxy user=system:admin groups=[system:masters] extra=[] auth= impersonate=other"},
		{"a certificate of another CA", &certs.AuthProxy, "", 401, "Unauthorized"},
		{"a certificate of another CA and a token", &certs.AuthProxy, "Bearer t", 200, "peer=none user= groups=[] extra=[] auth=Bearer t impersonate=other"},
	} {
		t.Run(test.what, func(t *testing.T) {
			request, err := http.NewRequest(http.MethodGet, url+"/api", nil)
			if err != nil {
				t.Fatal(err)
			}
			// Every header a proxy could be fooled by, in canonical and other spellings.
			request.Header["X-Remote-User"] = []string{"system:admin"}
			request.Header["x-remote-group"] = []string{"system:masters"}
			request.Header["X-Remote-Extra-Scopes"] = []string{"all"}
			request.Header.Set("Impersonate-User", "other")
			if test.bearer != "" {
				request.Header.Set("Authorization", test.bearer)
			}
			response := get(t, client(t, certs, test.pair), request)
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != test.code || !strings.Contains(string(body), test.want) {
				t.Errorf("%d %s\nwant %d %s", response.StatusCode, body, test.code, test.want)
			}
			if response.ProtoMajor != 2 {
				t.Errorf("protocol %s", response.Proto)
			}
		})
	}
}

func TestWatchIsNotBuffered(t *testing.T) {
	next := make(chan struct{})
	url, certs := frontAndBackend(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "event %d\n", i)
			w.(http.Flusher).Flush()
			<-next // the following event is sent only after the client has read this one
		}
	})
	request, err := http.NewRequest(http.MethodGet, url+"/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(get(t, client(t, certs, nil), request).Body)
	for i := range 3 {
		if !lines.Scan() || lines.Text() != fmt.Sprintf("event %d", i) {
			t.Fatalf("event %d: got %q, %v", i, lines.Text(), lines.Err())
		}
		next <- struct{}{}
	}
}

func TestUpgradePasses(t *testing.T) {
	url, certs := frontAndBackend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Remote-User") != "system:admin" {
			http.Error(w, "who?", http.StatusForbidden)
			return
		}
		connection, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer connection.Close()
		_, _ = io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\n")
		line, err := buffer.ReadString('\n')
		if err == nil {
			_, _ = io.WriteString(connection, "echo "+line)
		}
	})
	c := client(t, certs, &certs.Admin)
	request, err := http.NewRequest(http.MethodGet, url+"/warm", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = get(t, client(t, certs, nil), request) // the certificate exists from here on

	config := c.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	connection, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), config)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(connection, "GET /exec HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\n")
	reader := bufio.NewReader(connection)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v %v", response, err)
	}
	fmt.Fprint(connection, "hello\n")
	if line, err := reader.ReadString('\n'); err != nil || line != "echo hello\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

func TestAwayAPIServerIs503(t *testing.T) {
	url, certs := frontAndBackend(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	request, err := http.NewRequest(http.MethodGet, url+"/api", nil)
	if err != nil {
		t.Fatal(err)
	}
	response := get(t, client(t, certs, nil), request)
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), `"apiserver not ready"`) {
		t.Errorf("%d %s %v", response.StatusCode, body, err)
	}
}

func TestFilterOfAskedNames(t *testing.T) {
	configured := []string{"pi.example", "localhost"}
	for _, test := range []struct {
		what           string
		strict, synced bool
		want           []string
	}{
		{"before the cluster can be read", true, false, []string{"localhost", "attacker.example"}},
		{"with security", true, true, []string{"localhost"}},
		{"without security", false, true, []string{"localhost", "attacker.example"}},
	} {
		t.Run(test.what, func(t *testing.T) {
			l := &Listener{core: &atomic.Pointer[core.Factory]{}}
			if test.synced {
				l.core.Store(&core.Factory{})
			}
			if got := l.filter(configured, test.strict)("localhost", "attacker.example"); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestOwnPaths(t *testing.T) {
	url, certs := frontAndBackend(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, r.URL.Path, http.StatusTeapot) })
	for path, want := range map[string]string{"/ping": "pong", "/cacerts": "-----BEGIN CERTIFICATE-----", "/a//b": "/a//b"} {
		request, err := http.NewRequest(http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(get(t, client(t, certs, nil), request).Body)
		if err != nil || !strings.HasPrefix(string(body), want) {
			t.Errorf("%s: %q, %v", path, body, err)
		}
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = Bind("127.0.0.1", taken.Addr().(*net.TCPAddr).Port)
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) || !strings.Contains(err.Error(), "--https-listen-port") {
		t.Errorf("got %v", err)
	}
}
