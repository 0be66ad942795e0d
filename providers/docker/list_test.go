package docker

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/client"
)

// The list was observed on an engine 20.10 that had killed and removed a container at once: "gone"
// is unknown to it otherwise.
func TestContainersThatTheEngineDoesNotKnowAreNotListed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/") // the API's version
		answer := map[string]string{
			"containers/json": `[
				{"Id": "running", "Names": ["/a"], "State": "running", "ImageID": "one", "Labels": {"rollout.job": "j"}},
				{"Id": "going", "Names": ["/b"], "State": "removing", "ImageID": "two", "Labels": {"rollout.job": "j"}},
				{"Id": "gone", "Names": [], "State": "removing", "ImageID": "three", "Labels": {"rollout.job": "j"}},
				{"Id": "dead", "Names": [], "State": "dead", "ImageID": "four", "Labels": {"rollout.job": "j"}}]`,
			"containers/going/json": `{"Id": "going"}`,
			"images/json":           `[]`,
			"networks":              `[]`,
			"volumes":               `{}`,
		}[path]
		if answer == "" {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"message": "No such container"}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	api, err := client.NewClientWithOpts(client.WithHost("tcp://"+server.Listener.Addr().String()), client.WithVersion("1.41"))
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
	if want := []string{"running", "going"}; !slices.Equal(ids, want) {
		t.Errorf("listed %q, want %q", ids, want)
	}
	used, err := p.usedImages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !used["one"] || !used["two"] || used["three"] || used["four"] {
		t.Errorf("images in use: %v, want one and two", used)
	}
}
