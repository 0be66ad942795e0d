package docker

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
)

// TestPullFailures has an engine that answers what a registry says about an image.
func TestPullFailures(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // without credentials
	platforms := func(list ...string) string {
		var out []string
		for _, p := range list {
			os, arch, _ := strings.Cut(p, "/")
			out = append(out, fmt.Sprintf(`{"os":%q,"architecture":%q}`, os, arch))
		}
		return `{"Descriptor":{},"Platforms":[` + strings.Join(out, ",") + `]}`
	}
	for _, c := range []struct {
		name      string
		status    int
		answer    string
		transient bool
		says      string
	}{
		{"the image is for another platform", 200, platforms("linux/arm64"), false, "it is there for linux/arm64, and not for linux/amd64"},
		{"the image is for other platforms, with an attestation", 200, platforms("linux/s390x", "unknown/unknown", "linux/arm64"), false, "it is there for linux/arm64, linux/s390x, and not"},
		{"the image is for many platforms", 200, platforms("linux/arm64", "linux/amd64"), true, "has it now"},
		{"the image is for 32 bits", 200, platforms("linux/386"), true, "has it now"},
		{"the registry names no platform", 200, platforms(), true, "has it now"},
		{"a rate limit", http.StatusTooManyRequests, `{"message":"toomanyrequests"}`, true, "limits the rate of requests: wait, or run docker login, because limits are higher for accounts"},
		{"no such image", http.StatusNotFound, `{"message":"no"}`, false, "there is no such image: check"},
		{"a private image", http.StatusUnauthorized, `{"message":"no"}`, false, "run docker login"},
		{"a registry that fails", http.StatusInternalServerError, `{"message":"no"}`, true, "cannot be reached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer)
			}))
			defer server.Close()
			api, err := client.NewClientWithOpts(client.WithHost("tcp://"+strings.TrimPrefix(server.URL, "http://")), client.WithVersion("1.41"))
			if err != nil {
				t.Fatal(err)
			}
			defer api.Close()
			p := &Provider{api: api, info: system.Info{OSType: "linux", Architecture: "x86_64"}}
			transient, reason := p.pullFailure(t.Context(), "example.org/some/thing:1", p.platform())
			if transient != c.transient || !strings.Contains(reason, c.says) {
				t.Errorf("transient %t: %s", transient, reason)
			}
		})
	}
}
