package pki

import (
	"fmt"

	"github.com/rancher/dynamiclistener/cert"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is a configuration with everything embedded, under k3s' name "default".
func Kubeconfig(server string, ca, client Pair) ([]byte, error) {
	key, err := cert.MarshalPrivateKeyToPEM(client.Key)
	if err != nil {
		return nil, fmt.Errorf("cannot encode %s: %w", client.KeyFile, err)
	}
	const name = "default"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: server, CertificateAuthorityData: cert.EncodeCertPEM(ca.Cert)}
	config.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: cert.EncodeCertPEM(client.Cert), ClientKeyData: key}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the kubeconfig: %w", err)
	}
	return text, nil
}

// RestConfig is a client configuration by file names.
func RestConfig(server string, ca, client Pair) *rest.Config {
	return &rest.Config{
		Host: server,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: ca.CertFile, CertFile: client.CertFile, KeyFile: client.KeyFile,
		},
	}
}
