package github

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/rollout-action/internal/test/githubtest"
)

// slow is a network with random delays in both directions, by a seed.
type slow struct {
	next http.RoundTripper
	mu   sync.Mutex
	rand *rand.Rand
	most time.Duration
}

func (s *slow) wait() {
	s.mu.Lock()
	d := time.Duration(s.rand.Int64N(int64(s.most)))
	s.mu.Unlock()
	time.Sleep(d) // in the bubble's time
}

func (s *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	s.wait()
	resp, err := s.next.RoundTrip(r)
	s.wait()
	return resp, err
}

// race makes runs comment at the same time over a slow network, and returns the comments that
// remain. existing: an earlier run left a comment.
func race(t *testing.T, seed uint64, runs int, existing bool) (left []githubtest.Comment) {
	synctest.Test(t, func(t *testing.T) {
		s := githubtest.NewHandler()
		s.AddRepo(repo)
		s.AddPull(repo, githubtest.Pull{Number: 7})
		if existing {
			s.AddComment(repo, 7, actionsBot, comment(0, "run 0").text())
		}
		random := rand.New(rand.NewPCG(seed, 1))
		var wg sync.WaitGroup
		for run := 1; run <= runs; run++ {
			// A request takes less than the time after which runs check again: 4 * 240 ms < 1 s.
			net := &slow{next: s, rand: rand.New(rand.NewPCG(seed, uint64(run)+1)), most: 240 * time.Millisecond}
			c, err := NewWith(githubtest.WriteToken, s.URL, Options{Transport: net})
			if err != nil {
				t.Fatal(err)
			}
			late := time.Duration(random.Int64N(int64(2 * time.Second)))
			wg.Go(func() {
				time.Sleep(late)
				if _, err := c.Upsert(t.Context(), comment(run, fmt.Sprintf("run %d", run))); err != nil {
					t.Errorf("run %d: %v", run, err)
				}
			})
		}
		wg.Wait()
		left = s.Comments(repo, 7)
	})
	return left
}

// The newest run has the highest number, whenever it writes.
func TestConcurrentRunsLeaveOneComment(t *testing.T) {
	for runs := 2; runs <= 4; runs++ {
		for _, existing := range []bool{false, true} {
			for seed := range uint64(60) {
				left := race(t, seed, runs, existing)
				want := fmt.Sprintf("\nrun %d\n", runs)
				if len(left) != 1 || !strings.HasSuffix(left[0].Body, want) {
					t.Fatalf("%d runs, existing %v, seed %d: left %+v", runs, existing, seed, left)
				}
			}
		}
	}
}
