package github

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/test/githubtest"
)

// env returns an environment with these variables.
func env(values map[string]string) Getenv {
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}

const repo = "acme/widgets"

// start is where fake clocks begin: long after the real time, which must not matter.
var start = time.Date(2126, 11, 21, 12, 0, 0, 0, time.UTC)

// clock is a clock that only advances in Sleep.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	slept []time.Duration
}

func newClock() *clock { return &clock{now: start} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.slept = append(c.slept, d)
	return nil
}

func (c *clock) total() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum time.Duration
	for _, d := range c.slept {
		sum += d
	}
	return sum
}

// fixture returns a repository with pull request 7, and a client with a workflow's token, all with
// one clock.
func fixture(t *testing.T) (*githubtest.Server, *Client, *clock) {
	t.Helper()
	s, clock := githubtest.New(t), newClock()
	s.Now = clock.Now
	s.AddRepo(repo)
	s.AddPull(repo, githubtest.Pull{Number: 7, HeadBranch: "feature", HeadSHA: sha(7), Base: "main"})
	return s, client(t, s, clock, githubtest.WriteToken), clock
}

func client(t *testing.T, s *githubtest.Server, clock *clock, token string) *Client {
	t.Helper()
	c, err := NewWith(token, s.URL, Options{Now: clock.Now, Sleep: clock.Sleep})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sha returns the hash of the n-th commit.
func sha(n int) string {
	const digits = "0123456789abcdef"
	out := make([]byte, 40)
	for i := range out {
		out[i] = digits[n/16%16]
	}
	out[0], out[1], out[2] = digits[n%16], digits[n/16%16], digits[n/256%16]
	return string(out)
}

// comment returns a comment of run n, which began n minutes after start.
func comment(n int, body string) Comment {
	return Comment{
		Repo: repo, Number: 7, Marker: "nightly", ValidAt: start.Add(time.Duration(n) * time.Minute), RunID: int64(100 + n),
		Attempt: 1, Body: body,
	}
}

// count returns how many requests begin with method.
func count(s *githubtest.Server, method string) int {
	n := 0
	for _, r := range s.Requests() {
		if r.Method == method && r.Path != "/graphql" {
			n++
		}
	}
	return n
}

// brokenWriter fails at once.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
