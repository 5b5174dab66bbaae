package pki

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func loadTree(t *testing.T, dir string) Tree {
	t.Helper()
	tree, err := LoadTree(dir, []string{"localhost", "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestNames(t *testing.T) {
	host := Host{Name: "pi", Addresses: []string{"192.0.2.7"}}
	got := Names("node-a", "cluster.local", net.ParseIP("10.43.0.1"), host, []string{"pi.example", "localhost", "", "192.0.2.9", "pi.example"})
	want := []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		"localhost", "127.0.0.1", "::1", "10.43.0.1", "node-a", "pi", "192.0.2.7", "pi.example", "192.0.2.9",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestTreeIsReused(t *testing.T) {
	dir := t.TempDir()
	first, second := loadTree(t, dir), loadTree(t, dir)
	for _, pair := range [][2]Pair{{first.ServerCA, second.ServerCA}, {first.Admin, second.Admin}, {first.AuthProxy, second.AuthProxy}} {
		if !pair[0].Cert.Equal(pair[1].Cert) {
			t.Errorf("%s was made again", pair[0].CertFile)
		}
	}
}

func TestTreeShape(t *testing.T) {
	tree := loadTree(t, t.TempDir())
	keys, err := filepath.Glob(filepath.Join(tree.Dir, "*.key"))
	if err != nil || len(keys) < 8 {
		t.Fatalf("keys: %v %v", keys, err)
	}
	for _, key := range keys {
		info, err := os.Stat(key)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", key, info.Mode().Perm())
		}
	}
	years := func(c *x509.Certificate) int { return int(time.Until(c.NotAfter).Hours() / 24 / 364) }
	if !tree.ServerCA.Cert.IsCA || years(tree.ServerCA.Cert) != 10 {
		t.Errorf("server CA: CA %v, %d years", tree.ServerCA.Cert.IsCA, years(tree.ServerCA.Cert))
	}
	if tree.Admin.Cert.IsCA || years(tree.Admin.Cert) != 1 {
		t.Errorf("admin: CA %v, %d years", tree.Admin.Cert.IsCA, years(tree.Admin.Cert))
	}
	if got := tree.Admin.Cert.Subject; got.CommonName != "system:admin" || !slices.Equal(got.Organization, []string{"system:masters"}) {
		t.Errorf("admin is %s", got)
	}
}

func TestLeafGainsAName(t *testing.T) {
	dir := t.TempDir()
	before := loadTree(t, dir)
	after, err := LoadTree(dir, []string{"localhost", "127.0.0.1", "new.example"})
	if err != nil {
		t.Fatal(err)
	}
	if err := after.Serving.Cert.VerifyHostname("new.example"); err != nil {
		t.Error(err)
	}
	if !before.ServerCA.Cert.Equal(after.ServerCA.Cert) {
		t.Error("the CA was touched")
	}
}

func TestDamageIsReportedAndKept(t *testing.T) {
	for _, test := range []struct {
		what, file string
		damage     func(path string) error
		want       string
	}{
		{"garbage in a CA", "server-ca.crt", scribble, "server-ca.crt is damaged"},
		{"garbage in a CA key", "client-ca.key", scribble, "client-ca.key is damaged"},
		{"empty leaf", "client-admin.crt", func(path string) error { return os.Truncate(path, 0) }, "client-admin.crt is damaged"},
		{"lost CA", "server-ca.crt", os.Remove, "missing while its key exists"},
		{"lost CA key", "request-header-ca.key", os.Remove, "missing while its certificate exists"},
		{"garbage in the token key", "service.key", scribble, "service.key is damaged"},
		{"another's key", "client-ca.key", func(path string) error {
			other, err := os.ReadFile(filepath.Join(filepath.Dir(path), "server-ca.key"))
			if err != nil {
				return err
			}
			return os.WriteFile(path, other, 0o600)
		}, "does not belong to"},
	} {
		t.Run(test.what, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(loadTree(t, dir).Dir, test.file)
			if err := test.damage(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			_, err := LoadTree(dir, []string{"localhost"})
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Error("the file's content is in the message")
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the damaged file was overwritten")
			}
		})
	}
}

func scribble(path string) error { return os.WriteFile(path, []byte("s3cret garbage"), 0o600) }

// A first start killed between key and certificate must not need a user.
func TestInterruptedFirstStartHeals(t *testing.T) {
	dir := t.TempDir()
	tls := loadTree(t, dir).Dir
	for _, lost := range []string{"service.key", "client-ca.crt"} {
		if err := os.Remove(filepath.Join(tls, lost)); err != nil {
			t.Fatal(err)
		}
	}
	tree := loadTree(t, dir)
	if err := tree.Admin.Cert.CheckSignatureFrom(tree.ClientCA.Cert); err != nil {
		t.Error(err)
	}
}

func TestWriteFileReplacesAsAWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "file")
	for _, text := range []string{"old and longer", "new"} {
		if err := WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("got %q, %v", got, err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode: %v %v", info, err)
	}
}
