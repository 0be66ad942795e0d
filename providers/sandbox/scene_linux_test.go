package sandbox

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// create makes an environment that is destroyed with the test.
func create(t testing.TB, p environment.Provider, opts environment.CreateOptions) environment.Environment {
	t.Helper()
	e, err := p.CreateEnvironment(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.Destroy(ctx); err != nil {
			t.Error(err)
		}
	})
	return e
}

// run runs a script that must succeed, and returns its stdout and stderr.
func run(t testing.TB, e environment.Environment, script string) string {
	t.Helper()
	return runAs(t, e, environment.ExecOptions{}, script)
}

// runAs calls run with options.
func runAs(t testing.TB, e environment.Environment, opts environment.ExecOptions, script string) string {
	t.Helper()
	var out bytes.Buffer
	opts.Stdout, opts.Stderr = &out, &out
	code, err := e.Exec(t.Context(), script, opts)
	if err != nil || code != 0 {
		t.Fatalf("exit code %d, error %v of\n%s\nwhich printed\n%s", code, err, script, out.String())
	}
	return out.String()
}
