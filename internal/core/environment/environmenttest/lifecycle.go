package environmenttest

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
)

// lifecycleChecks check environments as a whole: creation, listing, stopping, loss and destruction.
func lifecycleChecks() []check {
	return []check{
		{"a provider has a name", checkName},
		{"two environments share nothing", checkIsolation},
		{"labels are found by another provider as they were given", checkLabels},
		{"another provider can remove an environment", checkRemove},
		{"removing what is not there is no error", checkRemoveGone},
		{"an image that does not exist makes no environment", checkUnknownImage},
		{"an image that does not exist cannot be pulled", checkUnknownPull},
		{"an image that is present need not be pulled", checkPresentPull},
		{"a creation that is cancelled leaves nothing", checkCancelledCreate},
		{"a provider closed leaves its environments alone", checkClose},
		{"destroying twice is no error", checkDestroyTwice},
		{"a destroyed environment is lost", checkUseAfterDestroy},
		{"destroying ends a running command", checkDestroyDuringExec},
		{"many may destroy at once", checkDestroyAtOnce},
		{"stopping keeps the files, marks the environment and ends its processes", checkStop},
		{"stopping ends a running command", checkStopDuringExec},
		{"an environment that the backend lost is lost, and destroying it is no error", checkVanished},
		{"an environment that the backend loses ends its command", checkVanishDuringExec},
		{"cost is an amount", checkCost},
		{"a base other than the image is reported in full, and alike for all of one image", needing(baseReporter, checkBase)},
		{"50 environments at once leave nothing behind", checkMany},
	}
}

func checkName(s *scene) {
	if s.provider.Name() == "" || s.provider.Name() != s.newProvider().Name() {
		s.Errorf("Name() = %q and %q", s.provider.Name(), s.newProvider().Name())
	}
}

func checkIsolation(s *scene) {
	a, b := s.create(), s.create()
	if a.ID() == "" || a.ID() == b.ID() {
		s.Errorf("ID() = %q and %q", a.ID(), b.ID())
	}
	a.run("echo a > /mine; rm -rf /opt")
	s.equal("the other's files", b.run("test -e /mine || echo none; test -d /opt && echo there"), "none\nthere\n")
	s.equal("a new one's files", s.create().run("test -e /mine || echo none"), "none\n")
}

func checkLabels(s *scene) {
	s.labels.Trial = "agent \"a\"/data set/täsk=1,2__3\n"
	env := s.create()
	found := (&scene{TB: s.TB, opts: s.opts, ctx: s.ctx, provider: s.newProvider(), labels: s.labels}).listed()
	if len(found) != 1 {
		s.Fatalf("another provider found %d, want 1: %+v", len(found), found)
	}
	if found[0].ID != env.ID() || found[0].Labels != s.labels || found[0].Kept {
		s.Errorf("found %+v, want ID %s, labels %+v, not kept", found[0], env.ID(), s.labels)
	}
	if found[0].Labels.Owner.Alive() != environment.Alive {
		s.Errorf("the owner %+v is %v, want alive", found[0].Labels.Owner, found[0].Labels.Owner.Alive())
	}
}

func checkRemove(s *scene) {
	env := s.create()
	if err := s.newProvider().Remove(s.ctx, env.ID()); err != nil {
		s.Fatalf("Remove: %v", err)
	}
	if left := s.listed(); len(left) > 0 {
		s.Errorf("still listed: %v", left)
	}
	s.isLost(env)
}

func checkRemoveGone(s *scene) {
	env := s.create()
	if err := env.Destroy(s.ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	for _, id := range []string{env.ID(), env.ID(), "0000no-such-environment0000"} {
		if err := s.provider.Remove(s.ctx, id); err != nil {
			s.Errorf("Remove(%s): %v", id, err)
		}
	}
}

// isLost checks that every method that reaches an environment reports that it is lost.
func (s *scene) isLost(b *box) {
	s.Helper()
	s.wantKind("Exec", b.exec(s.ctx, "echo ran", environment.ExecOptions{}).err, environment.KindLost)
	s.wantKind("Exec with a timeout", b.exec(s.ctx, "echo ran", environment.ExecOptions{Timeout: s.opts.patience()}).err, environment.KindLost)
	one := environment.Copy{Src: files(map[string]string{"f": "x"}), Dst: "/in"}
	s.wantKind("CopyTo", b.CopyTo(s.ctx, one), environment.KindLost)
	_, err := b.CopyFrom(s.ctx, "/etc", s.TempDir(), environment.ExtractOptions{})
	s.wantKind("CopyFrom", err, environment.KindLost)
	if environment.IsTransient(err) {
		s.Errorf("transient: %v", err)
	}
}

// missingImage is a reference that no backend has. Its registry cannot exist (RFC 2606).
const missingImage = "missing.invalid/rollout/environmenttest:none"

func checkUnknownImage(s *scene) {
	env, err := s.provider.CreateEnvironment(s.ctx, environment.CreateOptions{Image: missingImage, Labels: s.labels})
	if err == nil {
		_ = env.Destroy(s.ctx)
	}
	s.wantKind("CreateEnvironment", err, environment.KindStart, environment.KindPull)
	if environment.IsTransient(err) {
		s.Errorf("transient: %v", err)
	}
}

func checkUnknownPull(s *scene) {
	s.wantKind("PullImage", s.provider.PullImage(s.ctx, missingImage, nil), environment.KindPull)
}

func checkPresentPull(s *scene) {
	for range 2 {
		if err := s.provider.PullImage(s.ctx, s.opts.Image, func(string) {}); err != nil {
			s.Errorf("PullImage: %v", err)
		}
	}
}

func checkCancelledCreate(s *scene) {
	for _, after := range []time.Duration{0, 1, 5, 20, 50, 100, 200, 400} {
		ctx, cancel := context.WithTimeout(s.ctx, after*time.Millisecond)
		opts := environment.CreateOptions{Image: s.opts.Image, Labels: s.labels, Files: []environment.Copy{s.tools()}}
		env, err := s.provider.CreateEnvironment(ctx, opts)
		cancel()
		if err == nil {
			if err := env.Destroy(s.ctx); err != nil {
				s.Errorf("Destroy: %v", err)
			}
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) || environment.IsTransient(err) {
			s.Errorf("cancelled after %d ms: %v (transient: %v)", after, err, environment.IsTransient(err))
		}
		if left := s.listed(); len(left) > 0 {
			s.Errorf("cancelled after %d ms: left behind %v", after, left)
			s.removeAll(left)
		}
	}
}

func checkClose(s *scene) {
	p := s.opts.New(s.TB)
	env, err := p.CreateEnvironment(s.ctx, environment.CreateOptions{Image: s.opts.Image, Labels: s.labels})
	if err != nil {
		s.Fatalf("CreateEnvironment: %v", err)
	}
	if err := p.Close(); err != nil {
		s.Errorf("Close: %v", err)
	}
	if found := s.listed(); len(found) != 1 || found[0].ID != env.ID() {
		s.Errorf("after Close: %+v, want %s", found, env.ID())
	}
	s.removeAll(s.listed())
}

func checkDestroyTwice(s *scene) {
	env := s.create()
	env.run("sleep 3600 & sleep 3600 & true")
	for i := range 3 {
		if err := env.Destroy(s.ctx); err != nil {
			s.Errorf("Destroy, time %d: %v", i+1, err)
		}
		if left := s.listed(); len(left) > 0 {
			s.Errorf("still listed: %v", left)
		}
	}
}

func checkUseAfterDestroy(s *scene) {
	env := s.create()
	if err := env.Destroy(s.ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	s.isLost(env)
}

// during runs a command that never ends, and calls end while it runs. end may fail the check, so it
// is called by the check's own goroutine.
func (s *scene) during(b *box, end func() error) outcome {
	s.Helper()
	stdout := newSignal("ready\n")
	var o outcome
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.code, o.err = b.Exec(s.ctx, "sleep 3600 & echo ready; sleep 3600", environment.ExecOptions{Stdout: stdout})
	}()
	s.within("the command's first line", func() {
		select {
		case <-stdout.seen:
		case <-ended:
		}
	})
	if err := end(); err != nil {
		s.Errorf("meanwhile: %v", err)
	}
	s.within("Exec", func() { <-ended })
	return o
}

func checkDestroyDuringExec(s *scene) {
	env := s.create()
	o := s.during(env, func() error { return env.Destroy(s.ctx) })
	s.wantKind("Exec", o.err, environment.KindLost)
	s.isLost(env)
}

func checkDestroyAtOnce(s *scene) {
	env := s.create()
	env.run("sleep 3600 & true")
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			if i == 3 {
				_ = env.Stop(s.ctx) // it may be gone already
				return
			}
			errs[i] = env.Destroy(s.ctx)
		})
	}
	all.Wait()
	if err := errors.Join(append(errs, env.Destroy(s.ctx))...); err != nil {
		s.Errorf("Destroy: %v", err)
	}
}

func checkStop(s *scene) {
	env := s.withTools()
	env.run("mkdir -p /logs; echo kept > /logs/f")
	if err := env.Stop(s.ctx); err != nil {
		s.Fatalf("Stop: %v", err)
	}
	if found := s.listed(); len(found) != 1 || !found[0].Kept || found[0].ID != env.ID() || found[0].Labels != s.labels {
		s.Errorf("after Stop: %+v, want %s kept with its labels", found, env.ID())
	}
	s.wantKind("Exec", env.exec(s.ctx, "echo ran", environment.ExecOptions{}).err, environment.KindLost)
	// A provider need not copy files from a stopped environment.
	if f := env.fetch("/k", environment.ExtractOptions{}); f.err == nil {
		s.equal("kept", env.fetch("/logs", environment.ExtractOptions{}).ok(s).text(s, "f"), "kept\n")
		s.equal("what the server writes", env.fetch("/k", environment.ExtractOptions{}).ok(s).text(s, "older"), f.text(s, "older"))
	} else {
		s.wantKind("CopyFrom", f.err, environment.KindLost)
	}
	if err := env.Destroy(s.ctx); err != nil {
		s.Errorf("Destroy after Stop: %v", err)
	}
	if left := s.listed(); len(left) > 0 {
		s.Errorf("still listed: %v", left)
	}
}

func checkStopDuringExec(s *scene) {
	env := s.create()
	o := s.during(env, func() error { return env.Stop(s.ctx) })
	s.wantKind("Exec", o.err, environment.KindLost)
}

// vanish makes the backend lose an environment.
func (s *scene) vanish(b *box) {
	s.Helper()
	if s.opts.Vanish == nil {
		s.Skip("Options.Vanish is not set")
	}
	s.opts.Vanish(s.TB, b.ID())
}

func checkVanished(s *scene) {
	env := s.create()
	s.vanish(env)
	s.isLost(env)
	if left := s.listed(); len(left) > 0 {
		s.Errorf("still listed: %v", left)
	}
	if err := env.Destroy(s.ctx); err != nil {
		s.Errorf("Destroy: %v", err)
	}
	if err := s.provider.Remove(s.ctx, env.ID()); err != nil {
		s.Errorf("Remove: %v", err)
	}
}

func checkVanishDuringExec(s *scene) {
	if s.opts.Vanish == nil {
		s.Skip("Options.Vanish is not set")
	}
	env := s.create()
	o := s.during(env, func() error { s.opts.Vanish(s.TB, env.ID()); return nil })
	s.wantKind("Exec", o.err, environment.KindLost)
	s.isLost(env)
}

func checkCost(s *scene) {
	env := s.create()
	before := env.Cost()
	env.run("true")
	after := env.Cost()
	if before < 0 || after < before || math.IsNaN(after) || math.IsInf(after, 0) {
		s.Errorf("cost %v, then %v", before, after)
	}
}

func checkBase(s *scene) {
	a, b := s.create(), s.create()
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

func checkMany(s *scene) {
	n := 50
	if s.opts.brief() {
		n = 10
	}
	errs := make([]error, n)
	ids := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { ids[i], errs[i] = s.trial(i) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Error(err)
	}
	slices.Sort(ids)
	if distinct := len(slices.Compact(ids)); distinct != n {
		s.Errorf("%d different IDs, want %d", distinct, n)
	}
	if left := s.listed(); len(left) > 0 {
		s.Errorf("left behind: %v", left)
		s.removeAll(left)
	}
}

// trial runs the steps of a small trial in one environment.
func (s *scene) trial(i int) (id string, err error) {
	name := fmt.Sprintf("trial %d\n", i)
	env, err := s.provider.CreateEnvironment(s.ctx, environment.CreateOptions{Image: s.opts.Image, Labels: s.labels,
		Files: []environment.Copy{{Src: files(map[string]string{"in": name}), Dst: "/task"}}})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, env.Destroy(s.ctx)) }()
	var out strings.Builder
	code, err := env.Exec(s.ctx, "sleep 3600 & mkdir -p /logs; cat /task/in; cp /task/in /logs/out", environment.ExecOptions{Stdout: &out})
	if err != nil || code != 0 || out.String() != name {
		return env.ID(), fmt.Errorf("trial %d: exit code %d, output %q: %w", i, code, out.String(), err)
	}
	got, err := env.CopyFrom(s.ctx, "/logs", s.TempDir(), environment.ExtractOptions{})
	if err == nil && got.Files != 1 {
		err = fmt.Errorf("trial %d: %d files came out", i, got.Files)
	}
	return env.ID(), err
}
