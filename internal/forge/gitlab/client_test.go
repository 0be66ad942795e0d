package gitlab

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/forge/comments"
)

const token = "glpat-secret"

// testClient returns a client that records its waits instead of sleeping, and the list of its
// waits.
func testClient(t *testing.T, apiURL string, now time.Time) (*client, *[]time.Duration) {
	t.Helper()
	c, err := newClient(apiURL, token)
	if err != nil {
		t.Fatal(err)
	}
	var waits []time.Duration
	c.now = func() time.Time { return now }
	c.sleep = func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}
	return c, &waits
}

// answers starts a server that sends the answers in order and then repeats the last one.
func answers(t *testing.T, list ...func(w http.ResponseWriter)) (string, *int) {
	t.Helper()
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		list[min(n, len(list)-1)](w)
		n++
	}))
	t.Cleanup(s.Close)
	return s.URL, &n
}

func status(code int, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"id": 5}`)
	}
}

func TestRefusalsAreRepeatedWhenGitLabSays(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	reset := func(after time.Duration) string { return strconv.FormatInt(now.Add(after).Unix(), 10) }
	for _, tc := range []struct {
		name     string
		answers  []func(http.ResponseWriter)
		least    []time.Duration
		sent, ok int // the status of the error; 0: none
	}{
		{"a rate limit with a time", []func(http.ResponseWriter){status(429, "RateLimit-Reset", reset(20*time.Second)), status(200)}, []time.Duration{20 * time.Second}, 2, 0},
		{"a rate limit without one", []func(http.ResponseWriter){status(429), status(429), status(200)}, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}, 3, 0},
		{"a time that has passed", []func(http.ResponseWriter){status(429, "RateLimit-Reset", reset(-time.Hour)), status(200)}, []time.Duration{100 * time.Millisecond}, 2, 0},
		{"a time that is far away", []func(http.ResponseWriter){status(429, "RateLimit-Reset", reset(time.Hour)), status(200)}, nil, 1, 429},
		{"an outage that ends", []func(http.ResponseWriter){status(502), status(503), status(201)}, []time.Duration{700 * time.Millisecond, 1400 * time.Millisecond}, 3, 0},
		{"an outage that does not end", []func(http.ResponseWriter){status(500)}, []time.Duration{700e6, 1400e6, 2100e6, 2800e6, 3500e6}, 6, 500},
		{"a mistake of ours", []func(http.ResponseWriter){status(400)}, nil, 1, 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server, sent := answers(t, tc.answers...)
			c, waits := testClient(t, server, now)
			var got user
			_, err := c.do(t.Context(), http.MethodPost, "x", draft{"text"}, &got)
			var answer *statusError
			switch {
			case tc.ok == 0 && (err != nil || got.ID != 5), tc.ok != 0 && (!errors.As(err, &answer) || answer.status != tc.ok):
				t.Errorf("%+v, %v", got, err)
			case *sent != tc.sent || len(*waits) != len(tc.least):
				t.Errorf("%d requests with the waits %v", *sent, *waits)
			}
			for i, least := range tc.least {
				if wait := (*waits)[i]; wait < least || wait > 2*least+300*time.Millisecond {
					t.Errorf("wait %d is %s, want at least %s", i, wait, least)
				}
			}
		})
	}
}

func TestBodyIsSentAgain(t *testing.T) {
	var bodies []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		bodies = append(bodies, r.Header.Get("Content-Type")+" "+string(text))
		if len(bodies) == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer s.Close()
	c, _ := testClient(t, s.URL, time.Now())
	if _, err := c.do(t.Context(), http.MethodPut, "x", draft{"a"}, nil); err != nil {
		t.Fatal(err)
	}
	if want := `application/json {"body":"a"}`; !slices.Equal(bodies, []string{want, want}) {
		t.Errorf("the bodies are %q", bodies)
	}
}

func TestErrorsSayWhatTheBodySays(t *testing.T) {
	for body, want := range map[string]string{
		"":                                       "",
		`{"message": "401 Unauthorized"}`:        "{message: 401 Unauthorized}",
		`{"error": "x", "scope": ["a","b"]}`:     "{error: x}, {scope: [a, b]}",
		`{"message": {"note": ["is too long"]}}`: "{message: {note: [is too long]}}",
		`<html>`:                                 "failed to parse unknown error format: <html>",
		`{"n": 1}`:                               "{n: failed to parse unexpected error type: float64}",
	} {
		if got := message([]byte(body)); got != want {
			t.Errorf("%s says %q, want %q", body, got, want)
		}
	}
}

func TestBaseURL(t *testing.T) {
	for given, want := range map[string]string{
		"https://gitlab.example":             "https://gitlab.example/api/v4/",
		"https://gitlab.example/api/v4":      "https://gitlab.example/api/v4/",
		"https://example.org/gitlab/api/v4/": "https://example.org/gitlab/api/v4/",
		"https://example.org:8443/gitlab":    "https://example.org:8443/gitlab/api/v4/",
	} {
		c, err := newClient(given, token)
		if err != nil || c.base.String() != want {
			t.Errorf("%s: %v, %v", given, c.base, err)
		}
	}
}

// TestTokenStaysWithItsHost: a redirect within the API is followed with the token, one to another
// host without.
func TestTokenStaysWithItsHost(t *testing.T) {
	var seen []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, "other:"+r.Header.Get(tokenHeader))
		_ = json.NewEncoder(w).Encode(user{1})
	}))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.URL.Path+":"+r.Header.Get(tokenHeader))
		if r.URL.Path == "/api/v4/user" {
			http.Redirect(w, r, "/moved", http.StatusFound)
			return
		}
		http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), http.StatusFound)
	}))
	defer s.Close()
	c, _ := testClient(t, s.URL, time.Now())
	if _, err := c.do(t.Context(), http.MethodGet, "user", nil, nil); err != nil {
		t.Fatal(err)
	}
	if want := []string{"/api/v4/user:" + token, "/moved:" + token, "other:"}; !slices.Equal(seen, want) {
		t.Errorf("the requests are %q, want %q", seen, want)
	}
}

// TestCertificatesAndProxiesOfTheMachine: Go's defaults hold, SSL_CERT_FILE and HTTPS_PROXY among
// them.
func TestCertificatesAndProxiesOfTheMachine(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(user{1}) }))
	defer s.Close()
	c, _ := testClient(t, s.URL, time.Now())
	_, err := c.do(t.Context(), http.MethodGet, "user", nil, nil)
	var network *url.Error
	if !errors.As(err, &network) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v", err)
	}
	if transport := c.http.Transport.(*http.Transport); transport.TLSClientConfig != nil && transport.TLSClientConfig.RootCAs != nil || transport.Proxy == nil {
		t.Errorf("the transport has certificates of its own, or no proxy: %+v", transport)
	}
}

func TestBrokenAnswers(t *testing.T) {
	server, _ := answers(t, func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") })
	c, _ := testClient(t, server, time.Now())
	var got user
	if _, err := c.do(t.Context(), http.MethodGet, "user", nil, &got); err == nil || !strings.Contains(err.Error(), "read the answer") {
		t.Errorf("a page instead of JSON: %v", err)
	}
	if _, err := c.do(t.Context(), http.MethodDelete, "user", nil, nil); err != nil {
		t.Errorf("an answer that is not read: %v", err)
	}
	server, _ = answers(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
	})
	c, _ = testClient(t, server, time.Now())
	_, err := c.do(t.Context(), http.MethodGet, "user", nil, &got)
	var network *url.Error
	if !errors.As(err, &network) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half an answer: %v", err)
	}
}

// TestSlowServer: a server that does not answer in time may have written the note.
func TestSlowServer(t *testing.T) {
	block := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-block }))
	defer s.Close()
	defer close(block)
	c, _ := testClient(t, s.URL, time.Now())
	c.http.Timeout = 20 * time.Millisecond
	thread := &Thread{client: c, run: Run{Token: token, Project: "42", MergeRequest: 7}}
	_, err := thread.Create(t.Context(), "text")
	var uncertain *comments.UncertainError
	if !errors.As(err, &uncertain) || !strings.Contains(err.Error(), "Timeout") || strings.Contains(err.Error(), token) {
		t.Errorf("%v", err)
	}
}
