package front

import (
	"crypto/x509"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"

	"config-weaver/testbed/internal/pki"
)

// identify reads the user from a client certificate with the API server's own code.
type identify struct{ certificates authenticator.Request }

func newIdentify(clientCA pki.Pair) identify {
	options := requestx509.DefaultVerifyOptions()
	options.Roots = x509.NewCertPool()
	options.Roots.AddCert(clientCA.Cert)
	return identify{requestx509.New(options, requestx509.CommonNameUserConversion)}
}

// user is the owner of the client certificate; nil without one. A certificate that does not
// verify is refused unless a token comes with it, which then decides; the API server does
// the same.
func (i identify) user(r *http.Request) (user.Info, bool) {
	response, ok, err := i.certificates.AuthenticateRequest(r)
	switch {
	case err == nil && ok:
		return response.User, true
	case err != nil:
		return nil, r.Header.Get("Authorization") != ""
	default:
		return nil, true
	}
}

// dropIdentityHeaders removes every header by which a proxy names a user, in any spelling.
func dropIdentityHeaders(header http.Header) {
	for name := range header {
		if strings.HasPrefix(strings.ToLower(name), "x-remote-") {
			delete(header, name)
		}
	}
}
