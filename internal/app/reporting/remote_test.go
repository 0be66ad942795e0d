package reporting

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/github"
)

// TestBaselineAtURL checks that a server's answer results in a baseline, in none yet, or in an
// error that shows no secret.
func TestBaselineAtURL(t *testing.T) {
	const good = `{"job_name": "nightly", "agents": {}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/closed" && r.Header.Get("Private-Token") != "abc":
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/none":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Path == "/page":
			fmt.Fprint(w, "<html>")
		default:
			fmt.Fprint(w, good)
		}
	}))
	t.Cleanup(server.Close)
	header := ""
	f := Finder{
		Variables: host.Variables{Getenv: func(name string) (string, bool) {
			if name == headerVariable {
				return header, header != ""
			}
			return os.LookupEnv(name)
		}},
		github: func() github.Environment { return github.Environment{} },
	}
	for _, tc := range []struct {
		url, header, sentence, err string
	}{
		{url: "/closed?secret", header: "Private-Token: abc", sentence: "URL/closed (job nightly, commit not known)"},
		{url: "/OPEN", sentence: "URL/OPEN (job nightly, commit not known)"},
		{url: "/open", sentence: "URL/open (job nightly, commit not known)"},
		{url: "/none?secret", sentence: "URL/none: there is nothing at this URL yet"},
		{url: "/closed?secret", err: "--baseline: URL/closed: the server answers 403 Forbidden; set ROLLOUT_BASELINE_HEADER for a server that wants a token"},
		{url: "/closed", header: "abc", err: "--baseline: ROLLOUT_BASELINE_HEADER: want NAME: VALUE, such as PRIVATE-TOKEN: abc"},
		{url: "/page?secret", err: "--baseline: URL/page: not a valid file of this kind"},
	} {
		t.Run(tc.url+tc.header, func(t *testing.T) {
			header = tc.header
			opts := ReportOptions{Baseline: server.URL + tc.url}
			job, sentence, err := f.Baseline(t.Context(), "jobs/a", Evaluated{}, opts)
			plain := func(text string) string { return strings.ReplaceAll(text, server.URL, "URL") }
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(plain(err.Error()), tc.err) || strings.Contains(err.Error(), "secret") {
					t.Errorf("got %v, want %s", err, tc.err)
				}
			} else if err != nil || plain(sentence) != tc.sentence || (job == nil) != strings.HasPrefix(tc.url, "/none") {
				t.Errorf("got %q, %v, want %q", sentence, err, tc.sentence)
			}
			_, early := opts.CheckedEarly(t.Context(), f)
			if (early != nil) != (tc.err != "") {
				t.Errorf("before the job: %v", early)
			}
			_, _, err = f.Side(t.Context(), opts.Baseline, StoredAt{}, Evaluated{})
			if missing := tc.url == "/none?secret"; (err != nil) != (tc.err != "" || missing) || missing && !errors.Is(err, errNoObject) {
				t.Errorf("as a side of a comparison: %v", err)
			}
		})
	}
	header = "Private-Token: abc"
	for source, want := range map[string]string{
		"ftp://user:hidden@h/x":     "--baseline: ftp://h/x: want a path, https://HOST/PATH or s3://BUCKET/KEY",
		"HTTPS:/user:hidden@h/x":    "--baseline: https:/***@h/x: want a path",
		"https:user:hidden@h":       "--baseline ***@h: there is no such directory or file",
		"https//user:hidden@h/x":    "--baseline https//***@h/x: there is no such directory or file",
		"http://example.org/result": "--baseline: http://example.org/result: http would send your credentials so that others can read them: use https",
		"s3://bucket":               "--baseline: s3://bucket: want s3://BUCKET/KEY",
		"https://":                  "--baseline: https:: want a path",
	} {
		if _, err := (ReportOptions{Baseline: source}).CheckedEarly(t.Context(), f); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
	if f.SameJob("http://x/"+result.ResultFile, "jobs") {
		t.Error("a URL is a directory")
	}
}

func TestTheBaselinesURLIsReadOnce(t *testing.T) {
	asked := 0
	there := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; !there {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, `{"job_name": "before", "agents": {}, "results": []}`)
	}))
	defer server.Close()
	f := Finder{Variables: host.Variables{Getenv: func(string) (string, bool) { return "", false }}}
	for _, there = range []bool{true, false} {
		asked = 0
		opts, err := ReportOptions{Baseline: server.URL + "/result.json"}.CheckedEarly(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		found := there
		there = !there // while the job runs
		for range 2 {
			if job, _, err := f.Baseline(t.Context(), "jobs/a", Evaluated{}, opts); err != nil || (job != nil) != found {
				t.Errorf("found %v: %v, %v", found, job, err)
			}
		}
		if asked != 1 {
			t.Errorf("found %v: the server was asked %d times", found, asked)
		}
	}
}
