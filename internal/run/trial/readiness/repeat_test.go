package readiness

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Docker's rules for healthchecks, by the times at which checks begin.
func TestRepeatCheck(t *testing.T) {
	broken := errors.New("the environment is gone")
	h := func(interval, start, startInterval float64, retries int) healthcheck {
		return healthcheck{interval: seconds(interval), startPeriod: seconds(start), startInterval: seconds(startInterval), retries: retries}
	}
	for _, tc := range []struct {
		name  string
		check healthcheck
		takes time.Duration // each check
		good  int           // the check that succeeds; 0: none
		bad   int           // the check that cannot be made; 0: none
		want  []int         // seconds
	}{
		{"healthy at once", h(5, 0, 5, 3), 0, 1, 0, []int{0}},
		{"the last retry may succeed", h(5, 0, 5, 3), 0, 3, 0, []int{0, 5, 10}},
		{"after it there is none", h(5, 0, 5, 3), 0, 4, 0, []int{0, 5, 10}},
		{"intervals begin where checks end", h(5, 0, 5, 2), 3 * time.Second, 0, 0, []int{0, 8}},
		{"failures in the start period do not count", h(5, 4, 2, 2), 0, 0, 0, []int{0, 2, 4, 9}},
		{"a check that begins in the start period does not count either", h(5, 4, 1, 1), 5 * time.Second, 0, 0, []int{0, 6}},
		{"the start period ends when it is healthy", h(5, 100, 1, 1), 0, 3, 0, []int{0, 1, 2}},
		{"a check that cannot be made is no failure of the check", h(5, 0, 5, 3), 0, 0, 2, []int{0, 5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var at []int
				n, healthy, err := repeatCheck(t.Context(), tc.check, func() (bool, error) {
					at = append(at, int(time.Since(begun).Seconds()))
					time.Sleep(tc.takes)
					if len(at) == tc.bad {
						return false, broken
					}
					return len(at) == tc.good, nil
				})
				if !slices.Equal(at, tc.want) || n != len(tc.want) {
					t.Errorf("checks at %v (%d), want %v", at, n, tc.want)
				}
				if healthy != (tc.good == len(at)) || (tc.bad > 0) != errors.Is(err, broken) {
					t.Errorf("healthy %v, %v", healthy, err)
				}
			})
		})
	}
	t.Run("a cancel ends the waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			begun := time.Now()
			_, healthy, err := repeatCheck(ctx, h(600, 0, 5, 3), func() (bool, error) { return false, nil })
			if healthy || !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 3*time.Second {
				t.Errorf("%v, %v after %v", healthy, err, time.Since(begun))
			}
		})
	})
}
