package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/org/rollout-action/internal/test/testenv"
)

// podCalls are the calls of one hello trial, in order; docs/internals/kubernetes.md explains each.
var podCalls = []string{"POST /pods", "GET /pods/{name}/exec", "DELETE /pods/{name}"}

// podNames matches the names of pods in request paths.
var podNames = regexp.MustCompile(`/pods/[^/]+`)

func TestTrialOnKubernetesMakesTheFewestCalls(t *testing.T) {
	kubeconfig, registry := os.Getenv("ROLLOUT_TEST_KUBECONFIG"), os.Getenv("ROLLOUT_TEST_REGISTRY")
	if kubeconfig == "" || registry == "" {
		testenv.Lacks(t, "kubernetes", "a Kubernetes cluster: ROLLOUT_TEST_KUBECONFIG and ROLLOUT_TEST_REGISTRY")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	floor, err := newBarePods(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(floor.close)
	proxy := &callProxy{}
	b := &bench{dir: t.TempDir(), image: testenv.Image}
	ours, err := b.onKubernetes(t.Context(), proxy.before(t, config, "/api/v1/namespaces/"+floor.namespace), floor.namespace, registry)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.provider.Close() })
	for _, want := range [][]string{
		{"GET /pods?watch", "POST /pods", "GET /pods/{name}/exec", "DELETE /pods/{name}"}, // the first one begins the watch
		podCalls,
		podCalls,
	} {
		proxy.take()
		if _, err := ours.trials(1, 1)(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Servers before 1.32 receive a list before a watch.
		got := slices.DeleteFunc(proxy.take(), func(call string) bool { return call == "GET /pods" })
		// Commands in a container that does not run yet are refused, and retried.
		got = slices.Compact(got)
		slices.Sort(got[:max(0, len(got)-2)]) // the watch begins concurrently with the creation
		if !slices.Equal(got, want) {
			t.Errorf("a trial makes the calls\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// before starts a proxy in front of an API server, which records the calls below a path, and
// returns the kubeconfig for clients.
func (p *callProxy) before(t *testing.T, config *rest.Config, path string) (kubeconfig string) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"} // which supports upgrades
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if below, ours := strings.CutPrefix(r.URL.Path, path); ours {
			call := r.Method + " " + podNames.ReplaceAllString(below, "/pods/{name}")
			if r.URL.Query().Has("watch") {
				call += "?watch"
			}
			p.note(call)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections() // of watches
		server.Close()
	})
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: server.URL}}, Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}}, CurrentContext: "c",
	}, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}
