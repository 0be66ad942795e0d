package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/forge/comments"
	"github.com/org/rollout-action/internal/test/githubtest"
)

// ask makes one read-only request.
func ask(t *testing.T, c *Client) error {
	t.Helper()
	_, err := c.HasComment(t.Context(), repo, 7, "nightly")
	return err
}

// knowing returns a client that knows its login.
func knowing(t *testing.T, o Options) (*githubtest.Server, *Client, *clock) {
	t.Helper()
	s, _, clock := fixture(t)
	o.Now, o.Sleep = clock.Now, clock.Sleep
	c, err := NewWith(githubtest.WriteToken, s.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	c.remember(actionsBot)
	return s, c, clock
}

func TestClientWaitsForSecondaryLimits(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusTooManyRequests} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s, c, clock := knowing(t, Options{})
			s.LimitSecondary(2, status, 17*time.Second)
			if err := ask(t, c); err != nil {
				t.Fatal(err)
			}
			if want := []time.Duration{17 * time.Second, 17 * time.Second}; !slices.Equal(clock.slept, want) {
				t.Errorf("waited %v, want %v", clock.slept, want)
			}
		})
	}
}

func TestWaitForSecondaryLimitsWithoutATimeDoubles(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusTooManyRequests} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s, c, clock := knowing(t, Options{})
			s.LimitSecondary(2, status, 0)
			if err := ask(t, c); err != nil {
				t.Fatal(err)
			}
			if want := []time.Duration{time.Minute, 2 * time.Minute}; !slices.Equal(clock.slept, want) {
				t.Errorf("waited %v, want %v", clock.slept, want)
			}
		})
	}
}

// A limit refuses a request before it has an effect, so creations are retried, too.
func TestCreatingWaitsForALimit(t *testing.T) {
	s, c, clock := knowing(t, Options{})
	limited := false
	s.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && !limited {
			limited = true
			s.LimitSecondary(1, http.StatusForbidden, 5*time.Second)
		}
		return false
	})
	upsertOK(t, c, comment(1, "text"), comments.Created)
	only(t, s)
	if len(clock.slept) == 0 || clock.slept[0] != 5*time.Second {
		t.Errorf("waited %v", clock.slept)
	}
}

func TestClientWaitsForTheQuota(t *testing.T) {
	s, c, clock := knowing(t, Options{})
	s.SetRate(1, start.Add(2*time.Minute))
	for range 2 { // the first uses up the quota, the second waits before it is sent
		if err := ask(t, c); err != nil {
			t.Fatal(err)
		}
	}
	if want := []time.Duration{2*time.Minute + time.Second}; !slices.Equal(clock.slept, want) {
		t.Errorf("waited %v, want %v", clock.slept, want)
	}
	if got := count(s, http.MethodGet); got != 2 {
		t.Errorf("%d requests, want 2", got)
	}
}

func TestClientWaitsIfTheQuotaIsUsedUp(t *testing.T) {
	s, c, clock := knowing(t, Options{})
	s.SetRate(0, start.Add(time.Minute))
	if err := ask(t, c); err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{time.Minute + time.Second}; !slices.Equal(clock.slept, want) {
		t.Errorf("waited %v, want %v", clock.slept, want)
	}
}

func TestTotalWaitIsLimited(t *testing.T) {
	t.Run("the quota", func(t *testing.T) {
		s, c, clock := knowing(t, Options{})
		s.SetRate(0, start.Add(time.Hour))
		err := ask(t, c)
		var limit *RateLimitError
		if !errors.As(err, &limit) || limit.Secondary || !limit.Until.Equal(start.Add(time.Hour+time.Second)) {
			t.Errorf("the error is %v", err)
		}
		if want := "used up until 13:00:01 UTC"; !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %q, want %q in it", err, want)
		}
		if len(clock.slept) > 0 {
			t.Errorf("waited %v for nothing", clock.slept)
		}
		if ask(t, c) == nil || count(s, http.MethodGet) != 1 {
			t.Errorf("sent a request despite the limit: %q", s.Seen())
		}
	})
	t.Run("one limit after the other", func(t *testing.T) {
		s, c, clock := knowing(t, Options{MaxWait: 30 * time.Second})
		s.LimitSecondary(100, http.StatusForbidden, 10*time.Second)
		var limit *RateLimitError
		if err := ask(t, c); !errors.As(err, &limit) || !limit.Secondary {
			t.Errorf("the error is %v", err)
		}
		if clock.total() != 30*time.Second || count(s, http.MethodGet) != 4 {
			t.Errorf("waited %v with %d requests", clock.slept, count(s, http.MethodGet))
		}
	})
	t.Run("a wait of 0 is a second", func(t *testing.T) {
		s, c, clock := knowing(t, Options{MaxWait: 3 * time.Second})
		s.Before(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "-5")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		})
		var limit *RateLimitError
		if err := ask(t, c); !errors.As(err, &limit) || clock.total() != 3*time.Second {
			t.Errorf("the error is %v after %v", err, clock.slept)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		value string
		want  time.Duration
		asked bool
	}{
		{"", 0, false},
		{"30", 30 * time.Second, true},
		{"0", time.Second, true},
		{"-1", time.Second, true},
		{start.Add(90 * time.Second).Format(http.TimeFormat), 90 * time.Second, true},
		{start.Add(-time.Hour).Format(http.TimeFormat), time.Second, true},
		{"soon", time.Minute, true},
		{"99999999999999999999", time.Minute, true},
	} {
		got, asked := retryAfter(http.Header{"Retry-After": {tc.value}}, start)
		if got != tc.want || asked != tc.asked {
			t.Errorf("%q: %v, %v, want %v, %v", tc.value, got, asked, tc.want, tc.asked)
		}
	}
}

func TestTransientFailuresAreRetried(t *testing.T) {
	for _, status := range []int{500, 502, 503, 504, 408} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s, c, clock := knowing(t, Options{})
			left := maxTries - 1
			s.Before(func(w http.ResponseWriter, _ *http.Request) bool {
				left--
				if left >= 0 {
					w.WriteHeader(status)
				}
				return left >= 0
			})
			if err := ask(t, c); err != nil {
				t.Fatal(err)
			}
			if len(clock.slept) != 3 {
				t.Fatalf("waited %v", clock.slept)
			}
			for i, least := range []time.Duration{1, 2, 4} {
				if got := clock.slept[i]; got < least*time.Second || got >= least*time.Second*5/4 {
					t.Errorf("wait %d is %v, want %d s and up to a quarter more", i, got, least)
				}
			}
		})
	}
	t.Run("the number of retries is limited", func(t *testing.T) {
		s, c, _ := knowing(t, Options{})
		s.Before(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusBadGateway)
			return true
		})
		if err := ask(t, c); !isStatus(err, http.StatusBadGateway) || count(s, http.MethodGet) != maxTries {
			t.Errorf("%v after %d requests", err, count(s, http.MethodGet))
		}
	})
	t.Run("Retry-After is obeyed", func(t *testing.T) {
		s, c, clock := knowing(t, Options{})
		failed := false
		s.Before(func(w http.ResponseWriter, _ *http.Request) bool {
			if failed {
				return false
			}
			failed = true
			w.Header().Set("Retry-After", "42")
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		if err := ask(t, c); err != nil || !slices.Equal(clock.slept, []time.Duration{42 * time.Second}) {
			t.Errorf("%v, waited %v", err, clock.slept)
		}
	})
	t.Run("requests that must not be repeated", func(t *testing.T) {
		for _, status := range []int{400, 404, 410, 422} {
			s, c, clock := knowing(t, Options{})
			s.Before(func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(status)
				return true
			})
			if err := ask(t, c); !isStatus(err, status) || len(clock.slept) > 0 {
				t.Errorf("%d: %v, waited %v", status, err, clock.slept)
			}
		}
	})
}

// roundTrips is a transport of functions, one for each request.
type roundTrips func(*http.Request) (*http.Response, error)

func (f roundTrips) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestBrokenConnectionsAreRetried(t *testing.T) {
	var s *githubtest.Server
	broken := 0
	s, c, clock := knowing(t, Options{Transport: roundTrips(func(r *http.Request) (*http.Response, error) {
		if broken++; broken <= 2 {
			return nil, errors.New("connection reset by peer")
		}
		return s.RoundTrip(r)
	})})
	if err := ask(t, c); err != nil || len(clock.slept) != 2 {
		t.Errorf("%v, waited %v", err, clock.slept)
	}
	broken = -1000
	_, c, _ = knowing(t, Options{Transport: roundTrips(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("no route to host")
	})})
	if err := ask(t, c); err == nil || !strings.Contains(err.Error(), "GitHub cannot be reached: no route to host") {
		t.Errorf("the error is %v", err)
	}
}

// A retry sends the whole body again.
func TestRetryHasItsBody(t *testing.T) {
	var s *githubtest.Server
	// Without net/http's own transport, which resends some bodies itself.
	s, c, _ := knowing(t, Options{Transport: roundTrips(func(r *http.Request) (*http.Response, error) { return s.RoundTrip(r) })})
	s.AddComment(repo, 7, actionsBot, comment(1, "old").text())
	failed := false
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch || failed {
			return false
		}
		failed = true
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	upsertOK(t, c, comment(2, "new"), comments.Updated)
	if got := only(t, s); got.Edits != 1 || !strings.HasSuffix(got.Body, "\nnew\n") {
		t.Errorf("the comment is %+v", got)
	}
}

func TestRetriesStopWithTheContext(t *testing.T) {
	s, c, _ := knowing(t, Options{})
	s.LimitSecondary(1, http.StatusForbidden, 10*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	s.Before(func(http.ResponseWriter, *http.Request) bool {
		cancel()
		return false
	})
	if _, err := c.HasComment(ctx, repo, 7, "nightly"); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestRedirectToAnotherHostGetsNoToken(t *testing.T) {
	var leaked []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked = append(leaked, r.Header.Get("Authorization"))
		_, _ = w.Write([]byte("[]"))
	}))
	defer other.Close()
	s, c, _ := knowing(t, Options{})
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, other.URL, http.StatusFound)
		return true
	})
	if err := ask(t, c); err != nil || !slices.Equal(leaked, []string{""}) {
		t.Errorf("%v, the other server got %q", err, leaked)
	}
}

func TestRenamedRepositoryIsFollowed(t *testing.T) {
	s, c, _ := knowing(t, Options{})
	s.AddComment(repo, 7, actionsBot, comment(1, "text").text())
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		below, old := strings.CutPrefix(r.URL.Path, "/repos/acme/old/")
		if old {
			http.Redirect(w, r, "/repos/acme/widgets/"+below, http.StatusMovedPermanently)
		}
		return old
	})
	if got, err := c.HasComment(t.Context(), "acme/old", 7, "nightly"); !got || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// A proxy may answer with the request that it got.
func TestTokenIsInNoError(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 500} {
		s, c, _ := knowing(t, Options{})
		s.Before(func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"message": "you sent %s\n::error::x ##[error]", "errors": [{"message": "%s"}]}`,
				r.Header.Get("Authorization"), r.Header.Get("Authorization"))
			return true
		})
		_, err := c.Upsert(t.Context(), comment(1, "text"))
		if err == nil || strings.Contains(err.Error(), githubtest.WriteToken) || strings.Contains(err.Error(), "\n") ||
			strings.Contains(err.Error(), "##[") || !strings.Contains(err.Error(), "Bearer ***") {
			t.Errorf("%d: the error is %v", status, err)
		}
	}
	for _, token := range []string{"ghs_with\nnewline", "ghs_with\x00zero"} {
		s, _, clock := fixture(t)
		err := ask(t, client(t, s, clock, token))
		if err == nil || strings.Contains(err.Error(), "ghs_with") {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestEndlessResponseIsRefused(t *testing.T) {
	s, c, clock := knowing(t, Options{})
	s.Before(func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = w.Write([]byte("["))
		spaces := []byte(strings.Repeat(" ", 1<<20))
		for range maxAnswer>>20 + 1 {
			_, _ = w.Write(spaces)
		}
		return true
	})
	if err := ask(t, c); err == nil || !strings.Contains(err.Error(), "larger than 32 MiB") || len(clock.slept) > 0 {
		t.Errorf("the error is %v, waited %v", err, clock.slept)
	}
}

func TestURLsOfTheAPI(t *testing.T) {
	for _, tc := range []struct{ in, api, graphql string }{
		{"", "https://api.github.com/", "https://api.github.com/graphql"},
		{"https://api.github.com", "https://api.github.com/", "https://api.github.com/graphql"},
		{"https://ghe.example/api/v3", "https://ghe.example/api/v3/", "https://ghe.example/api/graphql"},
		{"https://ghe.example/api/v3/", "https://ghe.example/api/v3/", "https://ghe.example/api/graphql"},
		{"https://api.tenant.ghe.com", "https://api.tenant.ghe.com/", "https://api.tenant.ghe.com/graphql"},
		{"http://172.17.0.1:8080", "http://172.17.0.1:8080/", "http://172.17.0.1:8080/graphql"},
	} {
		c, err := New("token", tc.in)
		if err != nil {
			t.Fatal(err)
		}
		if c.api.BaseURL.String() != tc.api || c.graphql != tc.graphql {
			t.Errorf("%q: %s and %s, want %s and %s", tc.in, c.api.BaseURL, c.graphql, tc.api, tc.graphql)
		}
	}
	for _, in := range []string{"api.github.com", "ftp://x", "https://", "::", "file:///etc"} {
		if _, err := New("token", in); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if err := sleep(t.Context(), 0); err != nil {
		t.Errorf("the error is %v", err)
	}
}
