package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/providers"
)

// TestCommandThatIgnoresItsContextIsLeft: a long computation, or a file that never comes, does not
// look at the context.
func TestCommandThatIgnoresItsContextIsLeft(t *testing.T) {
	for _, test := range []struct {
		name       string
		connects   bool
		abortAfter time.Duration // the second signal; 0: there is none
		left       time.Duration // after the first signal; 0: it is waited for
	}{
		{"a command without environments", false, 0, cancelGrace},
		{"a second signal does not prolong it", false, time.Second, cancelGrace},
		{"a command with environments is waited for", true, 0, 0},
		{"a command with environments, after a second signal", true, time.Minute, time.Minute + abortGrace},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				soft, cancel := context.WithCancel(t.Context())
				hard, abort := context.WithCancel(t.Context())
				defer abort()
				var asked connections
				if test.connects {
					none := func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
						return fake.New(fake.Options{}), nil
					}
					_, _ = asked.watch(providers.Table{{New: none}})[0].New(soft, nil, providers.Host{})
				}
				if test.abortAfter > 0 {
					time.AfterFunc(test.abortAfter, abort)
				}
				const length = time.Hour
				ended := make(chan error, 1)
				time.AfterFunc(length, func() { ended <- nil })
				began := time.Now()
				cancel()
				err := asked.await(soft, hard, ended)
				took := time.Since(began)
				switch {
				case test.left == 0 && (err != nil || took < length):
					t.Errorf("it was left after %v: %v", took, err)
				case test.left > 0 && (!errors.Is(err, host.ErrCancelled) || took != test.left):
					t.Errorf("it was left after %v: %v", took, err)
				}
			})
		})
	}
}
