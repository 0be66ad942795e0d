package docker

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/client"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildkit"
)

// TestBuildKitIsDetectedOnlyFromAnAnswer: an engine that fails says nothing about it, and is asked
// again.
func TestBuildKitIsDetectedOnlyFromAnAnswer(t *testing.T) {
	const without = http.StatusNotFound
	for _, c := range []struct {
		name    string
		answers []int // to each question; 0 hangs up
		want    []string
	}{
		{"fails twice", []int{500, 503, 101}, []string{"transient", "transient", "yes", "yes"}},
		{"a proxy in between fails", []int{502, 504, 101}, []string{"transient", "transient", "yes", "yes"}},
		{"is busy", []int{429, 101}, []string{"transient", "yes", "yes"}},
		{"hangs up", []int{0, 101}, []string{"transient", "yes", "yes"}},
		{"has none", []int{without, 101}, []string{"no", "no"}},
		{"fails, and has none", []int{500, without, 101}, []string{"transient", "no", "no"}},
		{"must not be asked", []int{http.StatusForbidden, 101}, []string{"no", "no"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/grpc" || r.Header.Get("Upgrade") != "h2c" {
					t.Errorf("it asks %s %s", r.Method, r.URL)
				}
				switch status := c.answers[asked.Add(1)-1]; status {
				case 0:
					conn, _, err := http.NewResponseController(w).Hijack()
					if err == nil {
						conn.Close()
					}
				case http.StatusSwitchingProtocols:
					conn, _, err := http.NewResponseController(w).Hijack()
					if err == nil {
						_, _ = io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
						conn.Close()
					}
				default:
					w.WriteHeader(status)
				}
			}))
			defer server.Close()
			api, err := client.NewClientWithOpts(client.WithHost("tcp://" + strings.TrimPrefix(server.URL, "http://")))
			if err != nil {
				t.Fatal(err)
			}
			defer api.Close()
			p := &Provider{api: api}
			for i, want := range c.want {
				has, err := p.hasBuildKit(t.Context())
				got := map[bool]string{true: "yes", false: "no"}[has]
				if err != nil {
					got = "final: " + err.Error()
					// As build says it.
					if environment.IsTransient(p.buildFailed(t.Context(), buildRequest{}, &buildkit.Lines{}, err)) {
						got = "transient"
					}
				}
				if got != want {
					t.Errorf("question %d: %s, want %s", i+1, got, want)
				}
			}
		})
	}
	t.Run("nobody waits for the answer", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		api, err := client.NewClientWithOpts(client.WithHost("tcp://" + strings.TrimPrefix(server.URL, "http://")))
		if err != nil {
			t.Fatal(err)
		}
		defer api.Close()
		p := &Provider{api: api}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.hasBuildKit(cancelled); err == nil || p.buildkit != nil {
			t.Errorf("after a cancel: %v, and remembered %v", err, p.buildkit)
		}
	})
}
