package controlplane

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// part serves one group and version.
func part(version string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case schemasRoot:
			_, _ = w.Write([]byte(`{"paths": {"` + version + `": {"serverRelativeURL": "/"}}}`))
		case schemasRoot + "/" + version:
			_, _ = w.Write([]byte("schemas of " + version))
		default:
			http.NotFound(w, r)
		}
	})
}

func TestSchemasOfBuiltInKindsAreMadeOnceAndWhenAClientAsks(t *testing.T) {
	made := 0
	builtIn := schemas{[]string{"api/v1"}, sync.OnceValue(func() http.Handler {
		made++
		return part("api/v1")
	})}
	handler := withSchemas(part("apis/example.com/v1"), &builtIn)
	for _, step := range []struct {
		path string
		want []string
		made int
	}{
		{"/api/v1/namespaces", []string{"404"}, 0},
		{"/openapi/v2", []string{"404"}, 0},
		{schemasRoot, []string{`"apis/example.com/v1"`, `"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1"}`}, 0},
		{schemasRoot + "/apis/example.com/v1", []string{"schemas of apis/example.com/v1"}, 0},
		{schemasRoot + "/apis/other.example/v1", []string{"404"}, 0},
		{schemasRoot + "/api/v1", []string{"schemas of api/v1"}, 1},
		{schemasRoot + "/api/v1", []string{"schemas of api/v1"}, 1},
	} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, step.path, nil))
		for _, want := range step.want {
			if !strings.Contains(answer.Body.String(), want) {
				t.Errorf("%s: got %q, want %q", step.path, answer.Body, want)
			}
		}
		if made != step.made {
			t.Errorf("%s: made %d times, want %d", step.path, made, step.made)
		}
	}
}
