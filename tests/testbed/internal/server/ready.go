package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"config-weaver/testbed/internal/pki"
)

// startLimit is long enough for the slowest machine under emulation.
const startLimit = 5 * time.Minute

// client speaks to the API server directly, so that the front's certificate stays as the
// first real client finds it.
func (s *server) client() *rest.Config {
	return pki.RestConfig(s.apiserver.URL(), s.certs.ServerCA, s.certs.Supervisor)
}

// waitReady polls /readyz.
func (s *server) waitReady(ctx context.Context) error {
	return s.poll(ctx, "kube-apiserver did not become ready", func(ctx context.Context, c kubernetes.Interface) error {
		return c.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// waitNamespace polls for kube-system, which the API server makes shortly after it is ready.
func (s *server) waitNamespace(ctx context.Context) error {
	return s.poll(ctx, "namespace kube-system did not appear", func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
		return err
	})
}

func (s *server) poll(ctx context.Context, what string, ask func(context.Context, kubernetes.Interface) error) error {
	client, err := kubernetes.NewForConfig(s.client())
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startLimit, true, func(ctx context.Context) (bool, error) {
		last = ask(ctx, client)
		return last == nil, nil
	})
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%s within %s: %w", what, startLimit, errors.Join(last, err))
}
