package fetch_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/fetch"
)

// TestHeaderStaysWithItsHost: a token for one server is not sent to another that it redirects to.
func TestHeaderStaysWithItsHost(t *testing.T) {
	got := map[string]string{}
	serve := func(name string, then http.Handler) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got[name+r.URL.Path] = r.Header.Get("Private-Token")
			then.ServeHTTP(w, r)
		}))
		t.Cleanup(s.Close)
		return s
	}
	other := serve("other", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "text") }))
	own := http.NewServeMux()
	own.Handle("/first", http.RedirectHandler("/second", http.StatusFound))
	own.Handle("/second", http.RedirectHandler(other.URL+"/third", http.StatusFound))
	first := serve("own", own)
	file, err := fetch.Get(t.Context(), first.URL+"/first", fetch.Options{Max: 4, Header: http.Header{"Private-Token": {"secret"}}})
	if err != nil || string(file.Data) != "text" {
		t.Fatalf("got %q, %v", file.Data, err)
	}
	if got["own/first"] != "secret" || got["own/second"] != "secret" || got["other/third"] != "" {
		t.Errorf("the servers got %q", got)
	}
	if _, err := fetch.Get(t.Context(), other.URL, fetch.Options{Max: 3}); !errors.Is(err, fetch.ErrTooLarge) {
		t.Errorf("a file that is too large: %v", err)
	}
}

func TestShown(t *testing.T) {
	for source, want := range map[string]string{
		"https://user:secret@example.org/a?token=secret#secret": "https://example.org/a",
		"s3://bucket/a/b.json":           "s3://bucket/a/b.json",
		"https://example.org/%zz?secret": "otherwise",
	} {
		if got := fetch.Shown(source, "otherwise"); got != want {
			t.Errorf("%s is shown as %s", source, got)
		}
	}
}

// alone has no credentials of the user who runs the tests, and no metadata service.
func alone(t *testing.T, endpoint string) func(string) (string, bool) {
	t.Helper()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	nobody := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(nobody.Close)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", nobody.URL)
	return func(name string) (string, bool) {
		value, ok := map[string]string{"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "eu-central-1"}[name]
		return value, ok
	}
}

// TestSign uses a service that answers as S3 does, but checks no signature.
func TestSign(t *testing.T) {
	var asked []*url.URL
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL)
		fmt.Fprint(w, "object")
	}))
	t.Cleanup(service.Close)
	env := alone(t, service.URL)
	get := func() url.URL {
		t.Helper()
		signed, err := fetch.Sign(t.Context(), env, "s3://evals/main/result of a job.json")
		if err != nil {
			t.Fatal(err)
		}
		file, err := fetch.Get(t.Context(), signed, fetch.Options{Max: 10})
		if err != nil || string(file.Data) != "object" {
			t.Fatalf("got %q, %v", file.Data, err)
		}
		last := *asked[len(asked)-1]
		if last.Path != "/evals/main/result of a job.json" {
			t.Errorf("asked for %s", last.Path)
		}
		return last
	}
	if u := get(); u.RawQuery != "" {
		t.Errorf("signed without credentials: %s", u.RawQuery)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKID")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hidden")
	u := get()
	if q := u.Query(); q.Get("X-Amz-Signature") == "" || !strings.HasPrefix(q.Get("X-Amz-Credential"), "AKID/") || !strings.Contains(q.Get("X-Amz-Credential"), "/eu-central-1/s3/") || strings.Contains(u.RawQuery, "hidden") {
		t.Errorf("signed with %s", u.RawQuery)
	}
	if len(asked) != 2 {
		t.Errorf("%d requests for two objects", len(asked))
	}
}

func TestSignRefusesOtherURLs(t *testing.T) {
	env := alone(t, "https://s3.example.org/path")
	for source, want := range map[string]string{
		"s3://bucket":           "want s3://BUCKET/KEY",
		"s3://bucket/":          "want s3://BUCKET/KEY",
		"s3:///key":             "want s3://BUCKET/KEY",
		"s3://user@bucket/key":  "want s3://BUCKET/KEY",
		"s3://bucket/key?x=1":   "want s3://BUCKET/KEY",
		"https://bucket/key":    "want s3://BUCKET/KEY",
		"s3://bucket/key/a.txt": "AWS_ENDPOINT_URL is not the URL of a service, such as https://s3.example.org",
	} {
		if signed, err := fetch.Sign(t.Context(), env, source); err == nil || err.Error() != want {
			t.Errorf("%s: %q, %v", source, signed, err)
		}
	}
}
