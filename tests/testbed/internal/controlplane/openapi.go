package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// schemasRoot lists the groups and versions whose schemas are served below it.
const schemasRoot = "/openapi/v3"

// serve is upstream's Run, where the schemas of the built-in kinds are two fifths of what a start takes of a processor.
// Here they are made when a client asks for them, as kubectl does before it applies, and never for /openapi/v2: kubectl
// reads that for a List, and leaves to the server what it does not find there.
func serve(ctx context.Context, opts options.CompletedOptions) error {
	config, err := app.NewConfig(opts)
	if err != nil {
		return err
	}
	inner := config.KubeAPIs.ControlPlane.Generic
	inner.SkipOpenAPIInstallation = true
	outer := config.Aggregator.GenericConfig
	outer.OpenAPIConfig = nil

	// Filled below, when there is what they are made of; the first request comes later.
	var builtIn schemas
	upstream := outer.BuildHandlerChainFunc
	outer.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		return upstream(withSchemas(api, &builtIn), c)
	}
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	chain, err := app.CreateServerChain(completed)
	if err != nil {
		return err
	}
	kinds, ok := chain.GenericAPIServer.NextDelegate().(*genericapiserver.GenericAPIServer)
	if !ok {
		return errors.New("the server of the built-in kinds is not next to the aggregator: see openapi.go")
	}
	container := kinds.Handler.GoRestfulContainer
	for _, service := range container.RegisteredWebServices() {
		builtIn.versions = append(builtIn.versions, strings.TrimPrefix(service.RootPath(), "/"))
	}
	builtIn.handler = sync.OnceValue(func() http.Handler {
		served := mux.NewPathRecorderMux("schemas of built-in kinds")
		routes.OpenAPI{V3Config: inner.OpenAPIV3Config}.InstallV3(container, served)
		return served
	})
	prepared, err := chain.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}

// schemas are those of some groups and versions. The first call of handler makes them.
type schemas struct {
	versions []string
	handler  func() http.Handler
}

// withSchemas serves the schemas of the built-in kinds next to what `api` has: those of the definitions. The list has no
// hashes of them, for which they would have to be made: the API server itself, for policies that change objects, reads
// the list every five seconds.
func withSchemas(api http.Handler, builtIn *schemas) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		version, isVersion := strings.CutPrefix(r.URL.Path, schemasRoot+"/")
		if isVersion && slices.Contains(builtIn.versions, version) {
			builtIn.handler().ServeHTTP(w, r)
			return
		}
		if r.URL.Path != schemasRoot {
			api.ServeHTTP(w, r)
			return
		}
		versions, err := versionsOf(r.Context(), api)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		for _, own := range builtIn.versions {
			versions[own] = map[string]string{"serverRelativeURL": schemasRoot + "/" + own}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"paths": versions})
	})
}

// versionsOf asks a handler which groups and versions it has the schemas of, and where.
func versionsOf(ctx context.Context, handler http.Handler) (map[string]any, error) {
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, schemasRoot, nil))
	if answer.Code != http.StatusOK {
		return nil, fmt.Errorf("%s: %d %s", schemasRoot, answer.Code, answer.Body)
	}
	list := struct {
		Paths map[string]any `json:"paths"`
	}{map[string]any{}}
	if err := json.Unmarshal(answer.Body.Bytes(), &list); err != nil {
		return nil, fmt.Errorf("%s: %w", schemasRoot, err)
	}
	return list.Paths, nil
}
