package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/meter"
)

// Turns that wait for a budget begin in the order in which they came, large or small. One that
// gives up makes room for the next.
func TestTurnsBeginInTheOrderInWhichTheyCame(t *testing.T) {
	for range 20 { // the order of waking is random
		synctest.Test(t, func(t *testing.T) {
			s := NewSession(Options{Model: &Model{scale: &meter.Scale{}}, Budget: model.Budget{MaxTotalTokens: 1000}, MaxWait: time.Hour})
			turn := func(n int64) *meter.Size {
				return s.opts.Model.scale.Size(make([]byte, 10), n, func(int64, int64) *float64 { return nil })
			}
			first := turn(5000)
			if _, _, stop, err := s.begin(t.Context(), first); stop != "" || err != nil {
				t.Fatal(stop, err)
			}
			var mu sync.Mutex
			var order []int
			impatient, leave := context.WithCancelCause(t.Context())
			const turns = 8
			for i := range turns {
				ctx := t.Context()
				if i == 2 {
					ctx = impatient
				}
				size := turn(int64(5000 / (1 + i%3)))
				go func() {
					_, waited, stop, err := s.begin(ctx, size)
					if i == 2 && err != nil {
						return
					}
					if stop != "" || err != nil || waited <= 0 {
						t.Errorf("turn %d: %q, %v, after %s", i, stop, err, waited)
					}
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					time.Sleep(time.Second) // it uses little
					s.settle(size, model.Turn{Answer: model.Answer{Usage: model.Usage{Input: new(int64(1)), Output: new(int64(1))}}}, true)
				}()
				synctest.Wait()
			}
			leave(errors.New("enough"))
			synctest.Wait()
			time.Sleep(time.Second)
			s.settle(first, model.Turn{Answer: model.Answer{Usage: model.Usage{Input: new(int64(1)), Output: new(int64(1))}}}, true)
			time.Sleep(time.Hour / 2)
			mu.Lock()
			defer mu.Unlock()
			if want := []int{0, 1, 3, 4, 5, 6, 7}; !slices.Equal(order, want) {
				t.Errorf("they began as %v, want %v", order, want)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.queued != 0 {
				t.Errorf("%d turns are queued when all have begun", s.queued)
			}
		})
	}
}
