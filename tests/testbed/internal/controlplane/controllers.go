package controlplane

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"config-weaver/testbed/internal/pki"
)

// wanted are the controllers that a cluster without nodes has use for. Those for workloads,
// volumes and nodes stay off: they would cost memory and could do nothing.
var wanted = []string{
	names.NamespaceController,
	names.ServiceAccountController,
	names.ServiceAccountTokenController,
	names.RootCACertificatePublisherController,
	names.GarbageCollectorController,
	names.ResourceQuotaController,
	names.ClusterRoleAggregationController,
	names.ValidatingAdmissionPolicyStatusController,
	names.CertificateSigningRequestSigningController,
	names.CertificateSigningRequestApprovingController,
	names.CertificateSigningRequestCleanerController,
}

// Controllers says how kube-controller-manager is to run.
type Controllers struct {
	Kubeconfig string
	CertDir    string
	Certs      pki.Tree
	ExtraArgs  []string
}

// Run serves until the context ends. The API server must be ready.
func (c Controllers) Run(ctx context.Context) error {
	opts, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("kube-controller-manager: %w", err)
	}
	known, off, aliases := app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()
	sets := opts.Flags(known, off, aliases)
	if err := parse("kube-controller-manager", sets, c.args()); err != nil {
		return err
	}
	if err := opts.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("kube-controller-manager: %w", err)
	}
	config, err := opts.Config(ctx, known, off, aliases)
	if err != nil {
		return fmt.Errorf("kube-controller-manager: %w", err)
	}
	if err := app.Run(ctx, config.Complete()); err != nil {
		return fmt.Errorf("kube-controller-manager: %w", err)
	}
	return nil
}

func (c Controllers) args() []string {
	return mergeArgs(map[string]string{
		"authentication-kubeconfig":        c.Kubeconfig,
		"authorization-kubeconfig":         c.Kubeconfig,
		"bind-address":                     "127.0.0.1",
		"cert-dir":                         c.CertDir,
		"cluster-signing-cert-file":        c.Certs.ClientCA.CertFile,
		"cluster-signing-key-file":         c.Certs.ClientCA.KeyFile,
		"controllers":                      strings.Join(wanted, ","),
		"kubeconfig":                       c.Kubeconfig,
		"leader-elect":                     "false",
		"profiling":                        "false",
		"root-ca-file":                     c.Certs.ServerCA.CertFile,
		"secure-port":                      "0",
		"service-account-private-key-file": c.Certs.TokenKeyFile,
		"use-service-account-credentials":  "true",
	}, c.ExtraArgs)
}
