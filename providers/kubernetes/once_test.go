package kubernetes

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type result struct {
			value string
			err   error
		}
		var o once[string]
		var attempts, told atomic.Int32
		answers := make(chan result)
		get := func(ctx context.Context) <-chan result {
			got := make(chan result, 1)
			go func() {
				value, err := o.get(ctx, func(string) { told.Add(1) }, func(ctx context.Context, tell func(string)) (string, error) {
					attempts.Add(1)
					time.Sleep(time.Second) // until all have joined
					tell("waits")
					select {
					case r := <-answers:
						return r.value, r.err
					case <-ctx.Done():
						return "", ctx.Err()
					}
				})
				got <- result{value, err}
			}()
			return got
		}
		ctx, cancel := context.WithCancel(t.Context())
		refused := errors.New("refused")
		first, second := get(ctx), get(t.Context())
		time.Sleep(2 * time.Second)
		cancel()
		if r := <-first; !errors.Is(r.err, context.Canceled) {
			t.Errorf("the first one does not want it any more, but got %v", r)
		}
		answers <- result{"", refused}
		if r := <-second; !errors.Is(r.err, refused) || attempts.Load() != 1 || told.Load() != 2 {
			t.Errorf("the second one got %v after %d attempts, and both were told %d times", r, attempts.Load(), told.Load())
		}
		var all []<-chan result
		for range 10 {
			all = append(all, get(t.Context()))
		}
		answers <- result{"value", nil}
		for _, got := range slices.Concat(all, []<-chan result{get(t.Context())}) {
			if r := <-got; r.value != "value" || r.err != nil {
				t.Errorf("got %v", r)
			}
		}
		o.forget("another value")
		o.forget("value")
		again := get(t.Context())
		answers <- result{"new", nil}
		if r := <-again; r.value != "new" || attempts.Load() != 3 {
			t.Errorf("got %v after %d attempts", r, attempts.Load())
		}
	})
}
