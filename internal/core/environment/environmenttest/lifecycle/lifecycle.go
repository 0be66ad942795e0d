package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// lifecycleChecks check environments as a whole: creation, listing, stopping, loss and destruction.
func lifecycleChecks() []suite.Check {
	return []suite.Check{
		{Name: "a provider has a name", Run: checkName},
		{Name: "two environments share nothing", Run: checkIsolation},
		{Name: "labels are found by another provider as they were given", Run: checkLabels},
		{Name: "another provider can remove an environment", Run: checkRemove},
		{Name: "removing a missing environment is no error", Run: checkRemoveGone},
		{Name: "an image that does not exist makes no environment", Run: checkUnknownImage},
		{Name: "an image that does not exist cannot be pulled", Run: checkUnknownPull},
		{Name: "an image that is present need not be pulled", Run: checkPresentPull},
		{Name: "a creation that is cancelled leaves nothing", Run: checkCancelledCreate},
		{Name: "a provider closed leaves its environments alone", Run: checkClose},
		{Name: "destroying twice is no error", Run: checkDestroyTwice},
		{Name: "a destroyed environment is lost", Run: checkUseAfterDestroy},
		{Name: "destroying ends a running command", Run: checkDestroyDuringExec},
		{Name: "many may destroy at once", Run: checkDestroyAtOnce},
		{Name: "stopping keeps the files, marks the environment and ends its processes", Run: checkStop},
		{Name: "stopping ends a running command", Run: checkStopDuringExec},
		{Name: "an environment that the backend lost is lost, and destroying it is no error", Run: checkVanished},
		{Name: "an environment that the backend loses ends its command", Run: checkVanishDuringExec},
		{Name: "cost is an amount", Run: checkCost},
		{Name: "a base other than the image is reported in full, and alike for all of one image", Run: suite.Needing(suite.BaseReporter, checkBase)},
		{Name: "50 environments at once leave nothing behind", Run: checkMany},
	}
}

func checkName(s *suite.Scene) {
	if s.Provider.Name() == "" || s.Provider.Name() != s.NewProvider().Name() {
		s.Errorf("Name() = %q and %q", s.Provider.Name(), s.NewProvider().Name())
	}
}

func checkIsolation(s *suite.Scene) {
	a, b := s.Create(), s.Create()
	if a.ID() == "" || a.ID() == b.ID() {
		s.Errorf("ID() = %q and %q", a.ID(), b.ID())
	}
	a.Run("echo a > /mine; rm -rf /opt")
	s.Equal("the other's files", b.Run("test -e /mine || echo none; test -d /opt && echo there"), "none\nthere\n")
	s.Equal("a new one's files", s.Create().Run("test -e /mine || echo none"), "none\n")
}

func checkLabels(s *suite.Scene) {
	s.Labels.Trial = "agent \"a\"/data set/täsk=1,2__3\n"
	env := s.Create()
	found := (&suite.Scene{TB: s.TB, Opts: s.Opts, Ctx: s.Ctx, Provider: s.NewProvider(), Labels: s.Labels}).Listed()
	if len(found) != 1 {
		s.Fatalf("another provider found %d, want 1: %+v", len(found), found)
	}
	if found[0].ID != env.ID() || found[0].Labels != s.Labels || found[0].Kept {
		s.Errorf("found %+v, want ID %s, labels %+v, not kept", found[0], env.ID(), s.Labels)
	}
	if found[0].Labels.Owner.Alive() != environment.Alive {
		s.Errorf("the owner %+v is %v, want alive", found[0].Labels.Owner, found[0].Labels.Owner.Alive())
	}
}

func checkRemove(s *suite.Scene) {
	env := s.Create()
	if err := s.NewProvider().Remove(s.Ctx, env.ID()); err != nil {
		s.Fatalf("Remove: %v", err)
	}
	if left := s.Listed(); len(left) > 0 {
		s.Errorf("still listed: %v", left)
	}
	s.IsLost(env)
}

func checkRemoveGone(s *suite.Scene) {
	env := s.Create()
	if err := env.Destroy(s.Ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	for _, id := range []string{env.ID(), env.ID(), "0000no-such-environment0000"} {
		if err := s.Provider.Remove(s.Ctx, id); err != nil {
			s.Errorf("Remove(%s): %v", id, err)
		}
	}
}

// missingImage is a reference that no backend has. Its registry cannot exist (RFC 2606).
const missingImage = "missing.invalid/rollout/environmenttest:none"

func checkUnknownImage(s *suite.Scene) {
	env, err := s.Provider.CreateEnvironment(s.Ctx, environment.CreateOptions{Image: missingImage, Labels: s.Labels})
	if err == nil {
		_ = env.Destroy(s.Ctx)
	}
	s.WantKind("CreateEnvironment", err, environment.KindStart, environment.KindPull)
	if environment.IsTransient(err) {
		s.Errorf("transient: %v", err)
	}
}

func checkUnknownPull(s *suite.Scene) {
	s.WantKind("PullImage", s.Provider.PullImage(s.Ctx, missingImage, nil), environment.KindPull)
}

func checkPresentPull(s *suite.Scene) {
	for range 2 {
		if err := s.Provider.PullImage(s.Ctx, s.Opts.Image, func(string) {}); err != nil {
			s.Errorf("PullImage: %v", err)
		}
	}
}

func checkCancelledCreate(s *suite.Scene) {
	for _, after := range []time.Duration{0, 1, 5, 20, 50, 100, 200, 400} {
		ctx, cancel := context.WithTimeout(s.Ctx, after*time.Millisecond)
		opts := environment.CreateOptions{Image: s.Opts.Image, Labels: s.Labels, Files: []environment.Copy{s.Tools()}}
		env, err := s.Provider.CreateEnvironment(ctx, opts)
		cancel()
		if err == nil {
			if err := env.Destroy(s.Ctx); err != nil {
				s.Errorf("Destroy: %v", err)
			}
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) || environment.IsTransient(err) {
			s.Errorf("cancelled after %d ms: %v (transient: %v)", after, err, environment.IsTransient(err))
		}
		if left := s.Listed(); len(left) > 0 {
			s.Errorf("cancelled after %d ms: left behind %v", after, left)
			s.RemoveAll(left)
		}
	}
}

func checkClose(s *suite.Scene) {
	p := s.Opts.New(s.TB)
	env, err := p.CreateEnvironment(s.Ctx, environment.CreateOptions{Image: s.Opts.Image, Labels: s.Labels})
	if err != nil {
		s.Fatalf("CreateEnvironment: %v", err)
	}
	if err := p.Close(); err != nil {
		s.Errorf("Close: %v", err)
	}
	if found := s.Listed(); len(found) != 1 || found[0].ID != env.ID() {
		s.Errorf("after Close: %+v, want %s", found, env.ID())
	}
	s.RemoveAll(s.Listed())
}

func checkDestroyTwice(s *suite.Scene) {
	env := s.Create()
	env.Run("sleep 3600 & sleep 3600 & true")
	for i := range 3 {
		if err := env.Destroy(s.Ctx); err != nil {
			s.Errorf("Destroy, time %d: %v", i+1, err)
		}
		if left := s.Listed(); len(left) > 0 {
			s.Errorf("still listed: %v", left)
		}
	}
}

func checkUseAfterDestroy(s *suite.Scene) {
	env := s.Create()
	if err := env.Destroy(s.Ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	s.IsLost(env)
}

// during runs a command that never ends, and calls end while it runs. end may fail the check, so it
// is called by the check's own goroutine.
func during(s *suite.Scene, b *suite.Env, end func() error) suite.Outcome {
	s.Helper()
	stdout := suite.NewSignal("ready\n")
	var o suite.Outcome
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.Code, o.Err = b.Exec(s.Ctx, "sleep 3600 & echo ready; sleep 3600", environment.ExecOptions{Stdout: stdout})
	}()
	s.Within("the command's first line", func() {
		select {
		case <-stdout.Seen:
		case <-ended:
		}
	})
	if err := end(); err != nil {
		s.Errorf("meanwhile: %v", err)
	}
	s.Within("Exec", func() { <-ended })
	return o
}

func checkDestroyDuringExec(s *suite.Scene) {
	env := s.Create()
	o := during(s, env, func() error { return env.Destroy(s.Ctx) })
	s.WantKind("Exec", o.Err, environment.KindLost)
	s.IsLost(env)
}

func checkDestroyAtOnce(s *suite.Scene) {
	env := s.Create()
	env.Run("sleep 3600 & true")
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			if i == 3 {
				_ = env.Stop(s.Ctx) // it may be gone already
				return
			}
			errs[i] = env.Destroy(s.Ctx)
		})
	}
	all.Wait()
	if err := errors.Join(append(errs, env.Destroy(s.Ctx))...); err != nil {
		s.Errorf("Destroy: %v", err)
	}
}

func checkStop(s *suite.Scene) {
	env := s.WithTools()
	env.Run("mkdir -p /logs; echo kept > /logs/f")
	if err := env.Stop(s.Ctx); err != nil {
		s.Fatalf("Stop: %v", err)
	}
	if found := s.Listed(); len(found) != 1 || !found[0].Kept || found[0].ID != env.ID() || found[0].Labels != s.Labels {
		s.Errorf("after Stop: %+v, want %s kept with its labels", found, env.ID())
	}
	s.WantKind("Exec", env.Do(s.Ctx, "echo ran", environment.ExecOptions{}).Err, environment.KindLost)
	// A provider need not copy files from a stopped environment.
	if f := env.Fetch("/k", environment.ExtractOptions{}); f.Err == nil {
		s.Equal("kept", env.Fetch("/logs", environment.ExtractOptions{}).OK(s).Text(s, "f"), "kept\n")
		s.Equal("what the server writes", env.Fetch("/k", environment.ExtractOptions{}).OK(s).Text(s, "older"), f.Text(s, "older"))
	} else {
		s.WantKind("CopyFrom", f.Err, environment.KindLost)
	}
	if err := env.Destroy(s.Ctx); err != nil {
		s.Errorf("Destroy after Stop: %v", err)
	}
	if left := s.Listed(); len(left) > 0 {
		s.Errorf("still listed: %v", left)
	}
}

func checkStopDuringExec(s *suite.Scene) {
	env := s.Create()
	o := during(s, env, func() error { return env.Stop(s.Ctx) })
	s.WantKind("Exec", o.Err, environment.KindLost)
}

// vanish makes the backend lose an environment.
func vanish(s *suite.Scene, b *suite.Env) {
	s.Helper()
	if s.Opts.Vanish == nil {
		s.Skip("Options.Vanish is not set")
	}
	s.Opts.Vanish(s.TB, b.ID())
}

func checkVanished(s *suite.Scene) {
	env := s.Create()
	vanish(s, env)
	s.IsLost(env)
	if left := s.Listed(); len(left) > 0 {
		s.Errorf("still listed: %v", left)
	}
	if err := env.Destroy(s.Ctx); err != nil {
		s.Errorf("Destroy: %v", err)
	}
	if err := s.Provider.Remove(s.Ctx, env.ID()); err != nil {
		s.Errorf("Remove: %v", err)
	}
}

func checkVanishDuringExec(s *suite.Scene) {
	if s.Opts.Vanish == nil {
		s.Skip("Options.Vanish is not set")
	}
	env := s.Create()
	o := during(s, env, func() error { s.Opts.Vanish(s.TB, env.ID()); return nil })
	s.WantKind("Exec", o.Err, environment.KindLost)
	s.IsLost(env)
}

func checkCost(s *suite.Scene) {
	env := s.Create()
	before := env.Cost()
	env.Run("true")
	after := env.Cost()
	if before < 0 || after < before || math.IsNaN(after) || math.IsInf(after, 0) {
		s.Errorf("cost %v, then %v", before, after)
	}
}

func checkBase(s *suite.Scene) {
	a, b := s.Create(), s.Create()
	first, again, other := environment.BaseOf(a.Environment), environment.BaseOf(a.Environment), environment.BaseOf(b.Environment)
	for _, base := range []*environment.Base{again, other} {
		if (base == nil) != (first == nil) || base != nil && *base != *first {
			s.Errorf("of one image, one environment stands on %+v, another on %+v", first, base)
		}
	}
	if first == nil {
		return
	}
	for name, text := range map[string]string{"Requested": first.Requested, "Actual": first.Actual, "Reason": first.Reason} {
		if strings.TrimSpace(text) == "" || strings.ContainsAny(text, "\r\n") {
			s.Errorf("%s is %q, want one line", name, text)
		}
	}
}

func checkMany(s *suite.Scene) {
	n := 50
	if s.Opts.Brief() {
		n = 10
	}
	errs := make([]error, n)
	ids := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { ids[i], errs[i] = trial(s, i) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Error(err)
	}
	slices.Sort(ids)
	if distinct := len(slices.Compact(ids)); distinct != n {
		s.Errorf("%d different IDs, want %d", distinct, n)
	}
	if left := s.Listed(); len(left) > 0 {
		s.Errorf("left behind: %v", left)
		s.RemoveAll(left)
	}
}

// trial runs the steps of a small trial in one environment.
func trial(s *suite.Scene, i int) (id string, err error) {
	name := fmt.Sprintf("trial %d\n", i)
	env, err := s.Provider.CreateEnvironment(s.Ctx, environment.CreateOptions{Image: s.Opts.Image, Labels: s.Labels,
		Files: []environment.Copy{{Src: suite.Files(map[string]string{"in": name}), Dst: "/task"}}})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, env.Destroy(s.Ctx)) }()
	var out strings.Builder
	code, err := env.Exec(s.Ctx, "sleep 3600 & mkdir -p /logs; cat /task/in; cp /task/in /logs/out", environment.ExecOptions{Stdout: &out})
	if err != nil || code != 0 || out.String() != name {
		return env.ID(), fmt.Errorf("trial %d: exit code %d, output %q: %w", i, code, out.String(), err)
	}
	got, err := env.CopyFrom(s.Ctx, "/logs", s.TempDir(), environment.ExtractOptions{})
	if err == nil && got.Files != 1 {
		err = fmt.Errorf("trial %d: %d files came out", i, got.Files)
	}
	return env.ID(), err
}
