package pki

import (
	"crypto/x509"
	"path/filepath"
)

// Tree is every certificate and key of a server, under <data-dir>/server/tls.
type Tree struct {
	Dir             string
	ServerCA        Pair
	ClientCA        Pair
	RequestHeaderCA Pair
	Serving         Pair // the API server's own port, behind the front listener
	Admin           Pair // in the kubeconfig
	Supervisor      Pair // the testbed's own client
	Controller      Pair // kube-controller-manager
	AuthProxy       Pair // proves to the API server that a request comes from the front
	TokenKeyFile    string
}

// adminGroup is Kubernetes' group with every right.
const adminGroup = "system:masters"

// LoadTree reads or makes the files below serverDir.
func LoadTree(serverDir string, names []string) (Tree, error) {
	store := Store{Dir: filepath.Join(serverDir, "tls")}
	tree := Tree{Dir: store.Dir}

	authorities := []struct {
		into *Pair
		name string
	}{
		{&tree.ServerCA, "server-ca"},
		{&tree.ClientCA, "client-ca"},
		{&tree.RequestHeaderCA, "request-header-ca"},
	}
	var err error
	for _, a := range authorities {
		if *a.into, err = store.Authority(a.name); err != nil {
			return tree, err
		}
	}

	client := func(commonName string, organizations ...string) Leaf {
		return Leaf{CommonName: commonName, Organizations: organizations, Usage: x509.ExtKeyUsageClientAuth}
	}
	leaves := []struct {
		into *Pair
		name string
		ca   Pair
		want Leaf
	}{
		{&tree.Serving, "serving-kube-apiserver", tree.ServerCA, Leaf{CommonName: "kube-apiserver", Usage: x509.ExtKeyUsageServerAuth, Names: names}},
		{&tree.Admin, "client-admin", tree.ClientCA, client("system:admin", adminGroup)},
		{&tree.Supervisor, "client-supervisor", tree.ClientCA, client("system:k3s-supervisor", adminGroup)},
		{&tree.Controller, "client-controller", tree.ClientCA, client("system:kube-controller-manager")},
		{&tree.AuthProxy, "client-auth-proxy", tree.RequestHeaderCA, client(AuthProxyName)},
	}
	for _, l := range leaves {
		if *l.into, err = store.Leaf(l.name, l.ca, l.want); err != nil {
			return tree, err
		}
	}
	tree.TokenKeyFile, err = store.SigningKey()
	return tree, err
}

// AuthProxyName is the only certificate name that the API server trusts to name users.
const AuthProxyName = "system:auth-proxy"
