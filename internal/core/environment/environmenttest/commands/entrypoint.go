package commands

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// EntrypointChecks check images with an ENTRYPOINT or a HEALTHCHECK.
func EntrypointChecks() []suite.Check {
	return []suite.Check{
		{Name: "an ENTRYPOINT has done its work before the first command", Run: checkEntrypoint},
		{Name: "an ENTRYPOINT runs as the image's user", Run: checkEntrypointUser},
		{Name: "an ENTRYPOINT in shell form, or of a base image, is run", Run: checkEntrypointForms},
		{Name: "an ENTRYPOINT that is taken back is not run", Run: checkEntrypointReset},
		{Name: "what an ENTRYPOINT started lives on after a timeout", Run: checkEntrypointLives},
		{Name: "what an ENTRYPOINT starts later lives on after a timeout", Run: checkEntrypointLater},
		{Name: "an ENTRYPOINT that exits at once makes no environment, and its output is reported", Run: checkEntrypointExits},
		{Name: "an ENTRYPOINT that is not there makes no environment", Run: checkEntrypointMissing},
		{Name: "an ENTRYPOINT that exits later ends the environment and its commands", Run: checkEntrypointEnds},
		{Name: "an environment outlives a kill of its ENTRYPOINT from within", Run: checkEntrypointKilled},
		{Name: "an ENTRYPOINT that prints much holds nothing up", Run: checkEntrypointPrints},
		{Name: "an ENTRYPOINT that never runs its arguments is not waited for without end", Run: checkEntrypointBusy},
		{Name: "a creation that is cancelled while an ENTRYPOINT is waited for leaves nothing", Run: checkEntrypointCancelled},
		{Name: "stopping and destroying end what an ENTRYPOINT started", Run: checkEntrypointStop},
		{Name: "a snapshot has its image's ENTRYPOINT and HEALTHCHECK, and no process of it", Run: suite.Needing(suite.Snapshotter, checkEntrypointSnapshot)},
		{Name: "an image's HEALTHCHECK is reported and not run", Run: suite.Needing(suite.ReadinessReporter, checkHealthcheck)},
		{Name: "with a HEALTHCHECK an ENTRYPOINT is not waited for", Run: suite.Needing(suite.ReadinessReporter, checkHealthcheckFirst)},
	}
}

// enters builds an image with this script as its ENTRYPOINT, and creates an environment from it.
func enters(s *suite.Scene, script string, change ...func(*environment.CreateOptions)) *suite.Env {
	s.Helper()
	return s.Create(append([]func(*environment.CreateOptions){suite.On(withEntrypoint(s, script)), func(o *environment.CreateOptions) {
		o.Files = []environment.Copy{s.Tools()}
	}}, change...)...)
}

// withEntrypoint builds an image with this script as its ENTRYPOINT and returns its reference.
func withEntrypoint(s *suite.Scene, script string, more ...string) string {
	s.Helper()
	return s.Build(map[string]string{
		"entry.sh":   script,
		"Dockerfile": s.From() + "COPY entry.sh /entry.sh\nENTRYPOINT [\"bash\", \"/entry.sh\", \"an argument\"]\nCMD [\"never\", \"run\"]\n" + strings.Join(more, ""),
	})
}

func checkEntrypoint(s *suite.Scene) {
	ref := withEntrypoint(s, `first=$1; shift
sleep 0.5
{ cat /in/file; echo "$first, $COLOR $OWN in $PWD"; case "$*" in *never*) echo "the CMD: $*";; esac; } >/prepared
exec "$@"
`, "ENV COLOR=red\nWORKDIR /work\n")
	env := s.Create(suite.On(ref), func(o *environment.CreateOptions) {
		o.Env = map[string]string{"OWN": "and blue"}
		o.Files = []environment.Copy{{Src: suite.Files(map[string]string{"file": "the files are there\n"}), Dst: "/in"}}
	})
	s.Equal("prepared", env.Run("cat /prepared"), "the files are there\nan argument, red and blue in /work\n")
	if r := environment.ReadinessOf(env.Environment); r.Busy || r.Healthcheck != nil {
		s.Errorf("readiness %+v", r)
	}
}

func checkEntrypointUser(s *suite.Scene) {
	ref := withEntrypoint(s, "shift; id -un >/tmp/user; exec \"$@\"\n", "USER nobody\n")
	s.Equal("the user", s.Create(suite.On(ref)).Run("cat /tmp/user"), "nobody\n")
}

func checkEntrypointForms(s *suite.Scene) {
	// The ENTRYPOINT gets no arguments and keeps running. The environment is created anyway,
	// because of its HEALTHCHECK.
	shell := s.Build(map[string]string{"Dockerfile": s.From() + "HEALTHCHECK CMD true\nENTRYPOINT echo $# $0 >/prepared; sleep 3600\n"})
	s.Equal("in shell form", s.Create(suite.On(shell)).Run("until [ -s /prepared ]; do sleep 0.02; done; cut -c 1-6 /prepared"), "2 bash\n")
	base := withEntrypoint(s, "shift; echo prepared >/prepared; exec \"$@\"\n")
	child := s.Build(map[string]string{"Dockerfile": "FROM " + base + "\nRUN echo child >/child\n"})
	s.Equal("of a base image", s.Create(suite.On(child)).Run("cat /child /prepared"), "child\nprepared\n")
}

func checkEntrypointReset(s *suite.Scene) {
	ref := withEntrypoint(s, "echo prepared >/prepared; exit 1\n", "ENTRYPOINT []\n")
	s.Equal("prepared", s.Create(suite.On(ref)).Run("test -e /prepared || echo no"), "no\n")
}

func checkEntrypointLives(s *suite.Scene) {
	env := enters(s, "shift; bash /k/tick.sh service & setsid bash /k/tick.sh detached & exec \"$@\"\n")
	env.Run(". /k/lib.sh; reached service 2; reached detached 2")
	timeoutEnds(s, env, "echo ready; sleep 3600")
	s.Equal("the services", env.Run(". /k/lib.sh; grown service 10; grown detached 10; alive $(cat /k/service.pid) || echo dead"), "")
}

func checkEntrypointLater(s *suite.Scene) {
	env := enters(s, "shift; \"$@\" & until [ -e /k/go ]; do sleep 0.02; done; bash /k/tick.sh late & wait\n")
	timeoutEnds(s, env, ". /k/lib.sh; touch /k/go; reached late 2; echo ready; sleep 3600")
	s.Equal("the service", env.Run(". /k/lib.sh; grown late 10; alive $(cat /k/late.pid) || echo dead"), "")
}

func checkEntrypointExits(s *suite.Scene) {
	for _, code := range []string{"0", "5"} {
		ref := withEntrypoint(s, "echo 'I do my own thing'; echo 'and complain' >&2; exit "+code+"\n")
		env, err := s.Provider.CreateEnvironment(s.Ctx, environment.CreateOptions{Image: ref, Labels: s.Labels})
		if err == nil {
			err = (&suite.Env{Environment: env, Scene: s}).Do(s.Ctx, "sleep 3600", environment.ExecOptions{}).Err
			_ = env.Destroy(s.Ctx)
		}
		s.WantKind("an ENTRYPOINT that exits", err, environment.KindStart)
		known := new(environment.Error)
		if !errors.As(err, &known) || known.Transient || !strings.Contains(known.Output, "I do my own thing") || !strings.Contains(known.Output, "and complain") {
			s.Errorf("the error lacks its output: %+v", err)
		}
		if !strings.Contains(err.Error(), "exit code "+code) || !strings.Contains(err.Error(), "ENTRYPOINT") {
			s.Errorf("the error does not name the ENTRYPOINT and exit code %s: %v", code, err)
		}
	}
}

func checkEntrypointMissing(s *suite.Scene) {
	ref := s.Build(map[string]string{"Dockerfile": s.From() + "ENTRYPOINT [\"/no/such/entrypoint\"]\n"})
	env, err := s.Provider.CreateEnvironment(s.Ctx, environment.CreateOptions{Image: ref, Labels: s.Labels})
	if err == nil {
		_ = env.Destroy(s.Ctx)
	}
	s.WantKind("CreateEnvironment", err, environment.KindStart)
	if err != nil && !strings.Contains(err.Error(), "/no/such/entrypoint") {
		s.Errorf("the error does not name the ENTRYPOINT: %v", err)
	}
}

func checkEntrypointEnds(s *suite.Scene) {
	env := enters(s, "shift; \"$@\" & until [ -e /k/go ]; do sleep 0.02; done; exit 4\n")
	env.Run("true")
	o := env.Do(s.Ctx, "touch /k/go; sleep 3600", environment.ExecOptions{})
	s.WantKind("the command", o.Err, environment.KindLost)
	s.WantKind("the next one", env.Do(s.Ctx, "echo ran", environment.ExecOptions{}).Err, environment.KindLost)
}

func checkEntrypointKilled(s *suite.Scene) {
	env := enters(s, "shift; echo $$ >/k/pid; exec \"$@\"\n")
	env.Run("kill -9 $(cat /k/pid); true")
	s.Equal("the next command", env.Run("echo here"), "here\n")
}

func checkEntrypointPrints(s *suite.Scene) {
	env := enters(s, "shift; head -c 3000000 /dev/zero | tr '\\0' 'z'; (while :; do echo zzzzzzzzzzzzzzzzzzzzzzzz; echo x >>/k/service; done) & exec \"$@\"\n")
	s.Equal("while it prints", env.Run(". /k/lib.sh; grown service 5000; echo here"), "here\n")
}

func checkEntrypointBusy(s *suite.Scene) {
	if testing.Short() {
		s.Skip("it takes environment.HandoverTime")
	}
	s.Ctx = context.WithoutCancel(s.Ctx) // s.ctx may end before HandoverTime
	begun := time.Now()
	env := enters(s, "until [ -e /k/go ]; do sleep 0.02; done; exit\n")
	if !environment.ReadinessOf(env.Environment).Busy && !s.Lacks(suite.ReadinessReporter) {
		s.Error("it is not told that the ENTRYPOINT is busy")
	}
	const rounding = time.Second // in case a shell measures the time
	if took := time.Since(begun); took < environment.HandoverTime-rounding {
		s.Errorf("it was waited for %v, want %v or more", took, environment.HandoverTime)
	}
	s.Equal("a command", env.Run("echo here"), "here\n")
}

func checkEntrypointCancelled(s *suite.Scene) {
	ref := withEntrypoint(s, "sleep 3600\n")
	ctx, cancel := context.WithTimeout(s.Ctx, 1500*time.Millisecond)
	defer cancel()
	env, err := s.Provider.CreateEnvironment(ctx, environment.CreateOptions{Image: ref, Labels: s.Labels})
	if err == nil {
		_ = env.Destroy(s.Ctx)
	}
	if !errors.Is(err, context.DeadlineExceeded) || environment.IsTransient(err) {
		s.Errorf("CreateEnvironment: %v (transient: %v)", err, environment.IsTransient(err))
	}
	if left := s.Listed(); len(left) > 0 {
		s.Errorf("left behind: %v", left)
	}
}

// checkEntrypointStop starts a service that writes to a file, and reads the file afterwards as far
// as possible.
func checkEntrypointStop(s *suite.Scene) {
	const service = "shift; bash /k/tick.sh service & exec \"$@\"\n"
	env := enters(s, service)
	env.Run(". /k/lib.sh; reached service 2")
	if err := env.Stop(s.Ctx); err != nil {
		s.Fatalf("Stop: %v", err)
	}
	s.WantKind("Exec after Stop", env.Do(s.Ctx, "echo ran", environment.ExecOptions{}).Err, environment.KindLost)
	if f := env.Fetch("/k", environment.ExtractOptions{}); f.Err == nil {
		s.Equal("what the service writes", env.Fetch("/k", environment.ExtractOptions{}).OK(s).Text(s, "service"), f.Text(s, "service"))
	}
	another := enters(s, service)
	another.Run(". /k/lib.sh; reached service 2")
	if err := another.Destroy(s.Ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	s.IsLost(another)
}

func checkEntrypointSnapshot(s *suite.Scene) {
	ref := s.Build(map[string]string{
		"entry.sh":   "echo x >>/prepared; (while :; do echo x >>/ticks; sleep 0.02; done) & echo $! >/service; exec \"$@\"\n",
		"Dockerfile": s.From() + "COPY entry.sh /entry.sh\nENTRYPOINT [\"bash\", \"/entry.sh\"]\nHEALTHCHECK --retries=7 CMD test -s /service\n",
	})
	first := s.Create(suite.On(ref))
	first.Run("until [ -s /service ]; do sleep 0.02; done; echo made >/made")
	want := environment.ReadinessOf(first.Environment)
	second := s.Create(suite.On(s.Snapshot(first, environment.SnapshotOptions{Key: s.Key("")})))
	if got := environment.ReadinessOf(second.Environment); want.Healthcheck == nil || !reflect.DeepEqual(got, want) {
		s.Errorf("readiness %+v, want %+v", got.Healthcheck, want.Healthcheck)
	}
	s.Equal("in the snapshot", second.Run("until [ $(wc -l </prepared) -gt 1 ]; do sleep 0.02; done; cat /made /prepared"), "made\nx\nx\n")
}

func checkHealthcheck(s *suite.Scene) {
	usual := environment.Healthcheck{Interval: 30 * time.Second, Timeout: 30 * time.Second, StartInterval: 5 * time.Second, Retries: 3}
	for _, tc := range []struct {
		lines string
		want  func(h *environment.Healthcheck)
	}{
		{"HEALTHCHECK CMD [\"touch\", \"/checked\"]\n", func(h *environment.Healthcheck) { h.Args = []string{"touch", "/checked"} }},
		{"HEALTHCHECK --interval=2s --timeout=3s --start-period=4s --retries=5 CMD touch /checked || exit 1\n", func(h *environment.Healthcheck) {
			h.Args = []string{"/bin/sh", "-c", "touch /checked || exit 1"}
			h.Interval, h.Timeout, h.StartPeriod, h.Retries = 2*time.Second, 3*time.Second, 4*time.Second, 5
		}},
		{"SHELL [\"/bin/bash\", \"-uc\"]\nHEALTHCHECK CMD touch /checked\n", func(h *environment.Healthcheck) { h.Args = []string{"/bin/bash", "-uc", "touch /checked"} }},
		{"HEALTHCHECK CMD touch /checked\nHEALTHCHECK NONE\n", nil},
		{"RUN true\n", nil},
	} {
		env := s.Create(suite.On(s.Build(map[string]string{"Dockerfile": s.From() + tc.lines})))
		var want environment.Readiness
		if tc.want != nil {
			h := usual
			tc.want(&h)
			want.Healthcheck = &h
		}
		got := environment.ReadinessOf(env.Environment)
		if !reflect.DeepEqual(got, want) {
			s.Errorf("%s: %+v, want %+v", tc.lines, got.Healthcheck, want.Healthcheck)
			continue
		}
		s.Equal("checked", env.Run("test -e /checked || echo no"), "no\n")
		if h := got.Healthcheck; h != nil {
			env.Run(h.Script())
			s.Equal("checked", env.Run("test -e /checked && echo yes"), "yes\n")
		}
	}
}

func checkHealthcheckFirst(s *suite.Scene) {
	ref := withEntrypoint(s, "until [ -e /go ]; do sleep 0.02; done; shift; touch /went; exec \"$@\"\n", "HEALTHCHECK CMD test -e /went\n")
	env := s.Create(suite.On(ref))
	if r := environment.ReadinessOf(env.Environment); r.Busy || r.Healthcheck == nil || !slices.Contains(r.Healthcheck.Args, "test -e /went") {
		s.Errorf("readiness %+v", r)
	}
	s.Equal("the ENTRYPOINT", env.Run("test -e /went || echo waits; touch /go; until [ -e /went ]; do sleep 0.02; done; echo went"), "waits\nwent\n")
}
