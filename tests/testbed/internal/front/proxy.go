package front

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/rancher/dynamiclistener/cert"
	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"

	"config-weaver/testbed/internal/pki"
)

// userKey carries the verified user from the handler to the proxy.
type userKey struct{}

// NewServer answers /ping and /cacerts itself, as k3s does, and proxies the rest to the API
// server at `backend`.
func (l *Listener) NewServer(backend string, certs pki.Tree) (*http.Server, error) {
	target, err := url.Parse(backend)
	if err != nil {
		return nil, fmt.Errorf("API server address: %w", err)
	}
	proxy, err := newProxy(target, certs)
	if err != nil {
		return nil, err
	}
	identify := newIdentify(certs.ClientCA)
	caPEM := cert.EncodeCertPEM(certs.ServerCA.Cert)

	// No mux: it would redirect paths it finds unclean; the API server must see them as sent.
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.names.ServeHTTP(w, r)
		switch r.URL.Path {
		case "/ping":
			text(w, []byte("pong"))
			return
		case "/cacerts":
			text(w, caPEM)
			return
		}
		who, ok := identify.user(r)
		if !ok {
			fail(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
			return
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, who)))
	})
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 30 * time.Second,
		// Handshakes that fail are the client's matter; k3s does not log them either.
		ErrorLog: log.New(io.Discard, "", 0),
	}, nil
}

// newProxy streams requests and answers without buffering.
func newProxy(target *url.URL, certs pki.Tree) (*httputil.ReverseProxy, error) {
	ways, err := newBackends(certs)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Transport:     ways,
		FlushInterval: -1, // a watch event must not wait for the next
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded() // the audit log names the client's address
			dropIdentityHeaders(r.Out.Header)
			if who, ok := r.In.Context().Value(userKey{}).(user.Info); ok && who != nil {
				r.Out.Header.Del("Authorization")
				transport.SetAuthProxyHeaders(r.Out, who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra())
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				return // the client has gone
			}
			logrus.Debugf("proxy: %s %s: %v", r.Method, r.URL.Path, err)
			fail(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "apiserver not ready")
		},
	}, nil
}

// backends are the four ways to the API server. Only requests whose user was verified here
// travel over connections that show the proxy's certificate; over the others the API server
// trusts no user header, anyone who might have smuggled one in. Upgrades need HTTP/1.1.
type backends struct{ trusted, plain, trustedUpgrade, plainUpgrade http.RoundTripper }

func newBackends(certs pki.Tree) (backends, error) {
	roots := x509.NewCertPool()
	roots.AddCert(certs.ServerCA.Cert)
	proof, err := tls.LoadX509KeyPair(certs.AuthProxy.CertFile, certs.AuthProxy.KeyFile)
	if err != nil {
		return backends{}, fmt.Errorf("proxy certificate: %w", err)
	}
	trip := func(http2 bool, proofs ...tls.Certificate) http.RoundTripper {
		return &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: roots, Certificates: proofs, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:   http2,
			MaxIdleConnsPerHost: 32,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true, // the client decides; bytes pass as they are
		}
	}
	return backends{
		trusted: trip(true, proof), plain: trip(true),
		trustedUpgrade: trip(false, proof), plainUpgrade: trip(false),
	}, nil
}

// RoundTrip chooses the way by the verified user and by the kind of request.
func (b backends) RoundTrip(r *http.Request) (*http.Response, error) {
	who, _ := r.Context().Value(userKey{}).(user.Info)
	switch upgrade := httpstream.IsUpgradeRequest(r); {
	case who != nil && upgrade:
		return b.trustedUpgrade.RoundTrip(r)
	case who != nil:
		return b.trusted.RoundTrip(r)
	case upgrade:
		return b.plainUpgrade.RoundTrip(r)
	default:
		return b.plain.RoundTrip(r)
	}
}

// fail answers in the form every Kubernetes client understands.
func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: message, Reason: reason, Code: int32(code),
	})
}

func text(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write(body)
}
