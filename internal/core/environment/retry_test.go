package environment

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// script is a provider and an environment whose operations fail as listed, then succeed.
type script struct {
	Provider
	Environment
	fail  []error
	calls []string
	files []string // files that CopyFrom writes, even if it fails
}

func (s *script) next(operation string) error {
	s.calls = append(s.calls, operation)
	if len(s.fail) == 0 {
		return nil
	}
	err := s.fail[0]
	s.fail = s.fail[1:]
	return err
}

func (s *script) BuildImage(context.Context, BuildOptions) (string, error) {
	return "built", s.next("build")
}

func (s *script) PullImage(context.Context, string, func(string)) error { return s.next("pull") }

func (s *script) CreateEnvironment(context.Context, CreateOptions) (Environment, error) {
	if err := s.next("create"); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *script) CopyTo(context.Context, ...Copy) error { return s.next("copy") }

func (s *script) CopyFrom(_ context.Context, _, dst string, _ ExtractOptions) (Extracted, error) {
	for _, name := range s.files {
		// Like Extract, keep existing files.
		f, err := os.OpenFile(filepath.Join(dst, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return Extracted{}, err
		}
		f.Close()
	}
	return Extracted{Files: len(s.files)}, s.next("copy")
}

func (s *script) Exec(context.Context, string, ExecOptions) (int, error) { return 0, s.next("exec") }
func (s *script) Stop(context.Context) error                             { return s.next("stop") }
func (s *script) Destroy(context.Context) error                          { return s.next("destroy") }
func (s *script) Remove(context.Context, string) error                   { return s.next("remove") }
func (s *script) Close() error                                           { return nil }
func (s *script) Base() *Base                                            { return theBase }
func (s *script) OOMKills(context.Context) int                           { return 0 }
func (s *script) Readiness() Readiness                                   { return Readiness{} }
func (s *script) List(context.Context) ([]Listed, error)                 { return nil, s.next("list") }

var (
	errFlaky = &Error{Kind: KindUnavailable, Transient: true, Err: errors.New("connection reset")}
	errFinal = &Error{Kind: KindPull, Err: errors.New("no such image")}
)

var theBase = &Base{Requested: "python:3.12", Actual: "another", Reason: "no network"}

var testPolicy = RetryPolicy{MaxAttempts: 3, Initial: time.Second, Max: 30 * time.Second, Multiplier: 2}

// operations calls every operation, including those that Retry does not retry.
var operations = map[string]func(context.Context, Provider, Environment) error{
	"build": func(ctx context.Context, p Provider, _ Environment) error {
		ref, err := p.BuildImage(ctx, BuildOptions{})
		if err == nil && ref != "built" {
			return errors.New("the reference is lost")
		}
		return err
	},
	"pull": func(ctx context.Context, p Provider, _ Environment) error { return p.PullImage(ctx, "x", nil) },
	"create": func(ctx context.Context, p Provider, _ Environment) error {
		env, err := p.CreateEnvironment(ctx, CreateOptions{})
		if (env == nil) != (err != nil) {
			return errors.New("neither environment nor error, or both")
		}
		return err
	},
	"copy":    func(ctx context.Context, _ Provider, e Environment) error { return e.CopyTo(ctx) },
	"stop":    func(ctx context.Context, _ Provider, e Environment) error { return e.Stop(ctx) },
	"destroy": func(ctx context.Context, _ Provider, e Environment) error { return e.Destroy(ctx) },
	"exec": func(ctx context.Context, _ Provider, e Environment) error {
		_, err := e.Exec(ctx, "", ExecOptions{})
		return err
	},
	"remove": func(ctx context.Context, p Provider, _ Environment) error { return p.Remove(ctx, "x") },
	"list":   func(ctx context.Context, p Provider, _ Environment) error { _, err := p.List(ctx); return err },
}

func TestRetry(t *testing.T) {
	once := []string{"exec", "remove", "list"}
	for _, tc := range []struct {
		name  string
		fail  []error
		tries int // of operations that are retried
		want  error
	}{
		{"success is not retried", nil, 1, nil},
		{"a transient failure is retried", []error{errFlaky}, 2, nil},
		{"the last try's failure is returned", []error{errFlaky, errFlaky, errFlaky, errFlaky}, 3, errFlaky},
		{"another failure is final", []error{errFinal}, 1, errFinal},
		{"a final failure ends the tries", []error{errFlaky, errFinal}, 2, errFinal},
		{"an unknown failure is final", []error{fs.ErrNotExist}, 1, fs.ErrNotExist},
		{"the end of a context is final", []error{&Error{Transient: true, Err: context.DeadlineExceeded}}, 1, context.DeadlineExceeded},
	} {
		for operation, call := range operations {
			t.Run(tc.name+"/"+operation, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &script{}
					p := Retry(s, testPolicy)
					env, err := p.CreateEnvironment(t.Context(), CreateOptions{})
					if err != nil {
						t.Fatal(err)
					}
					s.fail, s.calls = slices.Clone(tc.fail), nil
					tries, want := tc.tries, tc.want
					if slices.Contains(once, operation) && len(tc.fail) > 0 {
						tries, want = 1, tc.fail[0]
					}
					if err := call(t.Context(), p, env); !errors.Is(err, want) {
						t.Errorf("error %v, want %v", err, want)
					}
					if got := slices.Repeat([]string{operation}, tries); !slices.Equal(s.calls, got) {
						t.Errorf("calls %v, want %v", s.calls, got)
					}
				})
			})
		}
	}
}

func TestRetryKeepsTheBase(t *testing.T) {
	env, err := Retry(&script{}, testPolicy).CreateEnvironment(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if BaseOf(env) != theBase {
		t.Errorf("Base() = %+v, want %+v", BaseOf(env), theBase)
	}
}

func TestRetryBacksOffAndNotifiesItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{fail: slices.Repeat([]error{errFlaky}, 6)}
		policy := RetryPolicy{MaxAttempts: 7, Initial: time.Second, Max: 10 * time.Second, Multiplier: 2}
		p := Retry(s, policy)
		var mine, other []Failure
		ctx := WithRetryNotify(t.Context(), func(f Failure) { mine = append(mine, f) })
		_ = WithRetryNotify(t.Context(), func(f Failure) { other = append(other, f) })

		begin := time.Now()
		if err := p.PullImage(ctx, "x", nil); err != nil {
			t.Fatal(err)
		}
		var waited time.Duration
		for i, most := range []time.Duration{1, 2, 4, 8, 10, 10} {
			f := mine[i]
			if f.Operation != "pull" || f.Attempt != i+1 || f.Err != errFlaky {
				t.Errorf("failure %d = %+v", i, f)
			}
			if f.Delay > most*time.Second || f.Delay < most*time.Second/2 {
				t.Errorf("delay %d = %v, want between %v and half of that", i, f.Delay, most*time.Second)
			}
			waited += f.Delay
		}
		if got := time.Since(begin); got != waited || len(mine) != 6 || len(other) != 0 {
			t.Errorf("waited %v of the announced %v; %d reports, %d under another context", got, waited, len(mine), len(other))
		}
	})
}

func TestRetryPolicyWithoutNumbersTriesOnce(t *testing.T) {
	s := &script{fail: []error{errFlaky}}
	if err := Retry(s, RetryPolicy{}).PullImage(t.Context(), "x", nil); !errors.Is(err, errFlaky) || len(s.calls) != 1 {
		t.Errorf("%v after %d calls", err, len(s.calls))
	}
}

func TestRetryStopsWaitingWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{fail: []error{errFlaky, errFlaky}}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		_, err := Retry(s, testPolicy).BuildImage(ctx, BuildOptions{})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errFlaky) || KindOf(err) != KindUnavailable {
			t.Errorf("error %v lacks the context's error or the failure", err)
		}
		if got := time.Since(begin); got != 100*time.Millisecond || len(s.calls) != 1 {
			t.Errorf("returned after %v and %d calls", got, len(s.calls))
		}
	})
}

func TestNoRetryAfterTheContextEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &script{fail: []error{errFlaky}}
	heard := 0
	err := Retry(s, testPolicy).PullImage(WithRetryNotify(ctx, func(Failure) { heard++ }), "x", nil)
	if !errors.Is(err, errFlaky) || len(s.calls) != 1 || heard != 0 {
		t.Errorf("%v after %d calls and %d reports", err, len(s.calls), heard)
	}
}

func TestRetryOfCopyFrom(t *testing.T) {
	for _, tc := range []struct {
		name          string
		before, files []string
		fail          []error
		tries         int
		after         string
		want          error
	}{
		{"an empty directory is emptied and filled again", nil, []string{"a", "b"}, []error{errFlaky}, 2, "a b", nil},
		{"a directory in use is kept if something was written", []string{"old"}, []string{"a"}, []error{errFlaky}, 1, "a old", errFlaky},
		{"a directory in use is retried if nothing was written", []string{"old"}, nil, []error{errFlaky}, 2, "old", nil},
		{"the files of the last try are kept", nil, []string{"a"}, []error{errFlaky, errFlaky, errFlaky}, 3, "a", errFlaky},
		{"the files of a final failure are kept", nil, []string{"a"}, []error{fs.ErrNotExist}, 1, "a", fs.ErrNotExist},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dst := t.TempDir()
				for _, name := range tc.before {
					if err := os.WriteFile(filepath.Join(dst, name), nil, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				s := &script{}
				env, err := Retry(s, testPolicy).CreateEnvironment(t.Context(), CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				s.calls, s.fail, s.files = nil, tc.fail, tc.files
				got, err := env.CopyFrom(t.Context(), "/logs", dst, ExtractOptions{})
				if !errors.Is(err, tc.want) || len(s.calls) != tc.tries || got.Files != len(tc.files) {
					t.Errorf("%+v, %v after %d tries", got, err, len(s.calls))
				}
				var names []string
				entries, _ := os.ReadDir(dst)
				for _, e := range entries {
					names = append(names, e.Name())
				}
				if strings.Join(names, " ") != tc.after {
					t.Errorf("the directory holds %v, want %s", names, tc.after)
				}
			})
		})
	}
}
