package docker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/client"
)

// The list was observed on an engine 20.10 that had killed and removed a container at once: "gone"
// is unknown to it otherwise. A cancelled job has 400 ms to list its containers, so each of
// these may cost one request.
func TestContainersThatTheEngineDoesNotKnowAreNotListed(t *testing.T) {
	id := func(digit string) string { return strings.Repeat(digit, 64) }
	running, going, gone, dead := id("a"), id("b"), id("c"), id("d")
	var asked atomic.Int32 // for containers that are gone
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/") // the API's version
		answer := map[string]string{
			"containers/json": `[
				{"Id": "` + running + `", "Names": ["/a"], "State": "running", "ImageID": "one", "Labels": {"rollout.job": "j"}},
				{"Id": "` + going + `", "Names": ["/b"], "State": "removing", "ImageID": "two", "Labels": {"rollout.job": "j"}},
				{"Id": "` + gone + `", "Names": [], "State": "removing", "ImageID": "three", "Labels": {"rollout.job": "j"}},
				{"Id": "` + dead + `", "Names": [], "State": "dead", "ImageID": "four", "Labels": {"rollout.job": "j"}}]`,
			"containers/" + going + "/json": `{"Id": "` + going + `"}`,
			"images/json":                   `[]`,
			"networks":                      `[]`,
			"volumes":                       `{}`,
		}[path]
		if answer == "" {
			asked.Add(1)
			w.WriteHeader(http.StatusNotFound)
			answer = `{"message": "No such container"}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	api, err := client.NewClientWithOpts(client.WithHost("tcp://"+server.Listener.Addr().String()), client.WithVersion("1.41"),
		client.WithHTTPClient(&http.Client{Transport: retryReads{http.DefaultTransport, new(heard)}}))
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{api: api}
	listed, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, l := range listed {
		ids = append(ids, l.ID)
	}
	if want := []string{running, going}; !slices.Equal(ids, want) {
		t.Errorf("listed %q, want %q", ids, want)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("%d requests for the two that are gone, want 2", n)
	}
	used, err := p.usedImages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !used["one"] || !used["two"] || used["three"] || used["four"] {
		t.Errorf("images in use: %v, want one and two", used)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.List(ctx); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "http://") {
		t.Errorf("listing with a context that ended: %v, want its error without a URL", err)
	}
}
