package distribution

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

func at(t *testing.T, host string) name.Registry {
	t.Helper()
	registry, err := name.NewRegistry(host, name.WeakValidation)
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

// head asks a registry for an image.
func head(ctx context.Context, c *Client, ref name.Reference) error {
	_, err := Attempt(ctx, c, ref.Context().Registry, func() (struct{}, error) {
		_, err := remote.Get(ref, c.Remote(ctx)...)
		return struct{}{}, err
	})
	return err
}

func reference(t *testing.T, ref string) name.Reference {
	t.Helper()
	parsed, err := name.ParseReference(ref, name.WeakValidation)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestRegistryWithAnUnknownCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	answer, err := (&http.Client{Transport: NewClient(Options{}).Transport()}).Get(server.URL)
	if err == nil {
		answer.Body.Close()
		t.Fatal("the certificate was accepted")
	}
	if err := Classify(at(t, "x"), err); !errors.Is(err, ErrUnreachable) || !strings.HasPrefix(err.Error(), "registry x: ") {
		t.Errorf("error %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		name, header string
		status       int
		waits        bool // for the next attempt
		want         time.Duration
		says         string
	}{
		{"seconds", "29", http.StatusTooManyRequests, true, 29 * time.Second, ""},
		{"a time that is over", time.Unix(0, 0).UTC().Format(http.TimeFormat), http.StatusTooManyRequests, true, 0, ""},
		{"nothing", "", http.StatusTooManyRequests, true, 0, ""},
		{"nonsense", "soon", http.StatusServiceUnavailable, true, 0, ""},
		{"too long", "3600", http.StatusTooManyRequests, false, 0, "it asks to wait for 1h0m0s"},
		{"longer than a number may be", "99999999999999999999", http.StatusTooManyRequests, true, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/" {
					return
				}
				if tc.header != "" {
					w.Header().Set("Retry-After", tc.header)
				}
				w.WriteHeader(tc.status)
			}))
			t.Cleanup(server.Close)
			var waited []time.Duration
			c := NewClient(Options{Attempts: 2, Pause: func(_ context.Context, _ int, atLeast time.Duration) error {
				waited = append(waited, atLeast)
				return nil
			}})
			err := head(t.Context(), c, reference(t, strings.TrimPrefix(server.URL, "http://")+"/a"))
			known := new(Error)
			if !errors.As(err, &known) || !errors.Is(err, ErrUnreachable) || known.Limited != (tc.status == http.StatusTooManyRequests) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%+v", err)
			}
			if tc.waits != (len(waited) == 1) || tc.waits && (waited[0] > tc.want || waited[0] == 0 && tc.want > 0) {
				t.Errorf("waited %v, want %s", waited, tc.want)
			}
		})
	}
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			nth     int
			atLeast time.Duration
			want    time.Duration
		}{{1, 0, firstPause}, {3, 0, 9 * firstPause}, {1, time.Minute, time.Minute}, {3, time.Millisecond, 9 * firstPause}} {
			begun := time.Now()
			if err := Pause(t.Context(), tc.nth, tc.atLeast); err != nil || time.Since(begun) != tc.want {
				t.Errorf("%d, %s: %s, want %s (%v)", tc.nth, tc.atLeast, time.Since(begun), tc.want, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Pause(ctx, 20, 0); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestPlainHTTPIsAskedFor(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	for _, allowed := range []bool{true, false} {
		var asked string
		c := NewClient(Options{PlainHTTP: func(host string) bool { asked = host; return allowed }})
		err := head(t.Context(), c, reference(t, host+"/a"))
		if asked != host || IsPlain(err) == allowed {
			t.Errorf("allowed %t: asked about %q, and then: %v", allowed, asked, err)
		}
	}
}

func TestHosts(t *testing.T) {
	if got := Host(reference(t, "debian").Context().Registry); got != "docker.io" {
		t.Errorf("Docker Hub is shown as %q", got)
	}
	if IsInvalid("invalid.example") || IsInvalid("notinvalid") || !IsInvalid("a.invalid.") || !IsInvalid("invalid:5000") {
		t.Error("the wrong names are invalid")
	}
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:5000": true, "127.0.0.1": true, "127.8.9.1:5000": true, "[::1]:5000": true,
		"10.0.0.1": false, "registry.local": false, "localhost.example.com": false, "127.0.0.1.example.com": false, "ghcr.io": false, "": false,
	} {
		if IsLoopback(host) != want {
			t.Errorf("%q is loopback: %t", host, !want)
		}
	}
}

func TestClassify(t *testing.T) {
	answer := func(status int, code transport.ErrorCode) error {
		e := &transport.Error{StatusCode: status}
		if code != "" {
			e.Errors = []transport.Diagnostic{{Code: code, Message: "because\nof\x1bthat"}}
		}
		return e
	}
	for _, tc := range []struct {
		name    string
		err     error
		kind    error
		limited bool
		text    string
	}{
		{"a limit by its code", answer(400, transport.TooManyRequestsErrorCode), ErrUnreachable, true, "400 Bad Request, TOOMANYREQUESTS: because of that"},
		{"a limit by its status", answer(429, ""), ErrUnreachable, true, "429 Too Many Requests"},
		{"a failure", answer(500, ""), ErrUnreachable, false, "500 Internal Server Error"},
		{"a login is missing", answer(401, ""), ErrDenied, false, "401 Unauthorized"},
		{"another login is needed", answer(403, transport.DeniedErrorCode), ErrDenied, false, "403 Forbidden, DENIED: because of that"},
		{"not there", answer(404, transport.ManifestUnknownErrorCode), ErrNotFound, false, "404 Not Found, MANIFEST_UNKNOWN: because of that"},
		{"broken off", io.ErrUnexpectedEOF, ErrUnreachable, false, "unexpected EOF"},
		{"cancelled", context.Canceled, nil, false, "context canceled"},
		{"something else", errors.New("odd"), nil, false, "odd"},
	} {
		e := Classify(at(t, "x"), tc.err)
		if !errors.Is(e.Kind, tc.kind) || e.Limited != tc.limited || e.Text() != tc.text || !errors.Is(e, tc.err) {
			t.Errorf("%s: %+v", tc.name, e)
		}
		if again := Classify(at(t, "y"), e); again != e {
			t.Errorf("%s: classified again as %+v", tc.name, again)
		}
	}
}

func TestOneLine(t *testing.T) {
	if got := OneLine("a\n\tb \x1b[1m\xff"); got != "a b [1m?" {
		t.Errorf("%q", got)
	}
	if got := OneLine(strings.Repeat("ü", 1000)); len(got) > MaxText+10 {
		t.Errorf("%d bytes", len(got))
	}
}
