package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/rancher/dynamiclistener/cert"
)

// renewBefore is how long before its end a leaf is replaced at start, as k3s does.
const renewBefore = 120 * 24 * time.Hour

// Store is the directory that holds the files.
type Store struct{ Dir string }

// Path is the full path of one file.
func (s Store) Path(name string) string { return filepath.Join(s.Dir, name) }

// Pair is a certificate with its key and the files they live in.
type Pair struct {
	Cert              *x509.Certificate
	Key               crypto.Signer
	CertFile, KeyFile string
}

// Leaf says what a certificate is for.
type Leaf struct {
	CommonName    string
	Organizations []string
	Usage         x509.ExtKeyUsage
	Names         []string // DNS names and IP addresses
}

// Authority loads the CA `<name>.crt`, or makes one of 10 years.
func (s Store) Authority(name string) (Pair, error) {
	pair, err := s.load(name)
	if !errors.Is(err, fs.ErrNotExist) {
		if err == nil && !pair.Cert.IsCA {
			err = damaged(pair.CertFile, errors.New("it is not a CA certificate"))
		}
		return pair, err
	}
	if pair.Key == nil {
		if pair.Key, err = newKey(); err != nil {
			return pair, err
		}
	}
	config := cert.Config{CommonName: fmt.Sprintf("k3s-%s@%d", name, time.Now().Unix())}
	if pair.Cert, err = cert.NewSelfSignedCACert(config, pair.Key); err != nil {
		return pair, fmt.Errorf("cannot make the CA %s: %w", name, err)
	}
	return pair, pair.write()
}

// Leaf loads `<name>.crt`, or has the CA sign a new one of 365 days when it is missing,
// nears its end, was signed by another CA or lacks a name.
func (s Store) Leaf(name string, ca Pair, want Leaf) (Pair, error) {
	pair, err := s.load(name)
	if err == nil && serves(pair.Cert, ca.Cert, want) {
		return pair, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return pair, err
	}
	if pair.Key == nil {
		if pair.Key, err = newKey(); err != nil {
			return pair, err
		}
	}
	config := cert.Config{
		CommonName:   want.CommonName,
		Organization: want.Organizations,
		Usages:       []x509.ExtKeyUsage{want.Usage},
		AltNames:     altNames(want.Names),
	}
	if pair.Cert, err = cert.NewSignedCert(config, pair.Key, ca.Cert, ca.Key); err != nil {
		return pair, fmt.Errorf("cannot sign the certificate %s: %w", name, err)
	}
	return pair, pair.write()
}

// tokenKeyName is the last file that a first start makes.
const tokenKeyName = "service.key"

// SigningKey loads or makes the RSA key that signs ServiceAccount tokens.
func (s Store) SigningKey() (string, error) {
	path := s.Path(tokenKeyName)
	switch _, err := readKey(path); {
	case err == nil:
		return path, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	key, err := cert.NewPrivateKey()
	if err != nil {
		return "", fmt.Errorf("cannot make the token signing key: %w", err)
	}
	return path, WriteFile(path, cert.EncodePrivateKeyPEM(key), 0o600)
}

// load reads certificate and key. fs.ErrNotExist means that the pair is to be made, with
// the returned key where there is one: a first start was killed between its two writes.
// Any other loss of one half is damage, since a new half would change what the other means.
func (s Store) load(name string) (Pair, error) {
	pair := Pair{CertFile: s.Path(name + ".crt"), KeyFile: s.Path(name + ".key")}
	var certErr, keyErr error
	pair.Cert, certErr = readCert(pair.CertFile)
	pair.Key, keyErr = readKey(pair.KeyFile)
	switch {
	case errors.Is(certErr, fs.ErrNotExist) && (errors.Is(keyErr, fs.ErrNotExist) || keyErr == nil && s.unfinished()):
		return pair, fs.ErrNotExist
	case errors.Is(certErr, fs.ErrNotExist):
		return pair, damaged(pair.CertFile, errors.New("it is missing while its key exists"))
	case certErr != nil:
		return pair, certErr
	case errors.Is(keyErr, fs.ErrNotExist):
		return pair, damaged(pair.KeyFile, errors.New("it is missing while its certificate exists"))
	case keyErr != nil:
		return pair, keyErr
	}
	public, ok := pair.Cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(pair.Key.Public()) {
		return pair, damaged(pair.KeyFile, errors.New("it does not belong to "+pair.CertFile))
	}
	return pair, nil
}

// unfinished says that no first start has come to its end: the key that is made last is missing.
func (s Store) unfinished() bool {
	_, err := os.Stat(s.Path(tokenKeyName))
	return errors.Is(err, fs.ErrNotExist)
}

// write stores the key first: load can mend a key without a certificate.
func (p Pair) write() error {
	key, err := cert.MarshalPrivateKeyToPEM(p.Key)
	if err != nil {
		return fmt.Errorf("cannot encode %s: %w", p.KeyFile, err)
	}
	if err := WriteFile(p.KeyFile, key, 0o600); err != nil {
		return err
	}
	return WriteFile(p.CertFile, cert.EncodeCertPEM(p.Cert), 0o644)
}

// serves says whether an existing leaf can continue being used.
func serves(have, ca *x509.Certificate, want Leaf) bool {
	if have.CheckSignatureFrom(ca) != nil || time.Until(have.NotAfter) < renewBefore {
		return false
	}
	if have.Subject.CommonName != want.CommonName {
		return false
	}
	for _, name := range want.Names {
		if have.VerifyHostname(name) != nil {
			return false
		}
	}
	return true
}

func altNames(names []string) cert.AltNames {
	var out cert.AltNames
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			out.IPs = append(out.IPs, ip)
		} else {
			out.DNSNames = append(out.DNSNames, name)
		}
	}
	return out
}

func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	return key, nil
}

func readCert(path string) (*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	certs, err := cert.ParseCertsPEM(text)
	if err != nil {
		return nil, damaged(path, err)
	}
	return certs[0], nil
}

func readKey(path string) (crypto.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	// The parser's own error is left out: a key's text must not reach a log.
	key, err := cert.ParsePrivateKeyPEM(text)
	signer, ok := key.(crypto.Signer)
	if err != nil || !ok {
		return nil, damaged(path, errors.New("it holds no private key in PEM form"))
	}
	return signer, nil
}

func damaged(path string, reason error) error {
	return fmt.Errorf("%s is damaged: %w; restore it from a backup, or remove the server/ folder it is in to start again (which loses all data)", path, reason)
}

// Chain is the certificate as the list that signers want.
func (p Pair) Chain() []*x509.Certificate { return []*x509.Certificate{p.Cert} }
