package environment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// RetryPolicy configures how often and when transient failures are retried. The wait before try n+1
// is Initial × Multiplierⁿ⁻¹, at most Max, minus a random part of up to one half: workers that
// failed together should not retry together.
type RetryPolicy struct {
	MaxAttempts int // includes the first try; below 1 means 1
	Initial     time.Duration
	Max         time.Duration
	Multiplier  float64 // below 1 means 1
}

// Failure is a failure that will be retried.
type Failure struct {
	Operation string // build, pull, create, exec, copy, look, network, keep, stop or destroy
	Attempt   int    // the failed try, from 1
	Err       error
	Delay     time.Duration // until the next try
}

type notifyKey struct{}

// WithRetryNotify makes the providers and environments of Retry call notify under ctx with each
// failure that they retry, before they wait. Calls come from the goroutine of the operation.
func WithRetryNotify(ctx context.Context, notify func(Failure)) context.Context {
	return context.WithValue(ctx, notifyKey{}, notify)
}

// Retry returns p with retries for transient failures (IsTransient) of BuildImage, PullImage and
// CreateEnvironment, and of its environments' CopyTo, CopyFrom, Stop and Destroy. This package's
// functions ImageID, FindSnapshot, SetNetwork, KeepOutcome and StopMain retry in the same way. Exec
// is only retried if the command did not begin (ErrNotBegun): a command never runs twice.
// Everything else happens once: after a failed Snapshot the environment may have ended. If ctx ends
// during a wait, the error contains both its error and the last failure.
//
// CopyFrom is retried only if the files of the failed try can be identified: nothing was written,
// or dst was empty before. Then dst is emptied.
func Retry(p Provider, policy RetryPolicy) Provider {
	return retryProvider{p, policy}
}

type retryProvider struct {
	Provider
	policy RetryPolicy
}

// Unwrap returns the provider without retries, which may have optional interfaces.
func (r retryProvider) Unwrap() Provider { return r.Provider }

func (r retryProvider) retryPolicy() RetryPolicy { return r.policy }

func (r retryProvider) BuildImage(ctx context.Context, opts BuildOptions) (ref string, err error) {
	err = r.policy.do(ctx, "build", func() error {
		ref, err = r.Provider.BuildImage(ctx, opts)
		return err
	})
	return ref, err
}

func (r retryProvider) PullImage(ctx context.Context, ref string, progress func(string)) error {
	return r.policy.do(ctx, "pull", func() error { return r.Provider.PullImage(ctx, ref, progress) })
}

func (r retryProvider) CreateEnvironment(ctx context.Context, opts CreateOptions) (Environment, error) {
	var env Environment
	err := r.policy.do(ctx, "create", func() (err error) {
		env, err = r.Provider.CreateEnvironment(ctx, opts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return retryEnvironment{env, r.policy}, nil
}

type retryEnvironment struct {
	Environment
	policy RetryPolicy
}

// Unwrap returns the environment without retries, which may have optional interfaces.
func (r retryEnvironment) Unwrap() Environment { return r.Environment }

func (r retryEnvironment) retryPolicy() RetryPolicy { return r.policy }

// policyOf returns the policy of the Retry that wraps v, a Provider or an Environment; without one,
// a policy of a single try.
func policyOf(v any) RetryPolicy {
	if r, ok := As[interface{ retryPolicy() RetryPolicy }](v); ok {
		return r.retryPolicy()
	}
	return RetryPolicy{}
}

func (r retryEnvironment) Exec(ctx context.Context, script string, opts ExecOptions) (code int, err error) {
	again := func(err error) bool { return IsTransient(err) && errors.Is(err, ErrNotBegun) }
	err = r.policy.repeat(ctx, "exec", again, func() error {
		code, err = r.Environment.Exec(ctx, script, opts)
		return err
	})
	return code, err
}

func (r retryEnvironment) CopyTo(ctx context.Context, files ...Copy) error {
	return r.policy.do(ctx, "copy", func() error { return r.Environment.CopyTo(ctx, files...) })
}

func (r retryEnvironment) CopyFrom(ctx context.Context, src, dst string, opts ExtractOptions) (Extracted, error) {
	before, err := os.ReadDir(dst)
	if err != nil {
		return Extracted{}, fmt.Errorf("read the directory to copy to: %w", err)
	}
	var out Extracted
	again := func(err error) bool {
		return IsTransient(err) && (len(before) == 0 || out.Files == 0) && emptyDirectory(dst, out.Files) == nil
	}
	err = r.policy.repeat(ctx, "copy", again, func() (err error) {
		out, err = r.Environment.CopyFrom(ctx, src, dst, opts)
		return err
	})
	return out, err
}

func (r retryEnvironment) Stop(ctx context.Context) error {
	return r.policy.do(ctx, "stop", func() error { return r.Environment.Stop(ctx) })
}

func (r retryEnvironment) Destroy(ctx context.Context) error {
	return r.policy.do(ctx, "destroy", func() error { return r.Environment.Destroy(ctx) })
}

// do calls operation until it succeeds, fails permanently, or ctx ends.
func (p RetryPolicy) do(ctx context.Context, name string, operation func() error) error {
	return p.repeat(ctx, name, IsTransient, operation)
}

// repeat calls operation as do does, but retries the errors for which again returns true.
func (p RetryPolicy) repeat(ctx context.Context, name string, again func(error) bool, operation func() error) error {
	notify, _ := ctx.Value(notifyKey{}).(func(Failure))
	for attempt := 1; ; attempt++ {
		err := operation()
		if err == nil || attempt >= p.MaxAttempts || ctx.Err() != nil || !again(err) {
			return err
		}
		delay := p.delay(attempt)
		if notify != nil {
			notify(Failure{Operation: name, Attempt: attempt, Err: err, Delay: delay})
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w while waiting to retry after: %w", ctx.Err(), err)
		}
	}
}

// delay returns the wait after the given try.
func (p RetryPolicy) delay(attempt int) time.Duration {
	wait := float64(p.Initial) * math.Pow(max(1, p.Multiplier), float64(attempt-1))
	wait = min(wait, float64(p.Max))
	return time.Duration(wait * (0.5 + rand.Float64()/2))
}

// emptyDirectory removes the content of dir, unless nothing was written there.
func emptyDirectory(dir string, written int) error {
	if written == 0 {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
