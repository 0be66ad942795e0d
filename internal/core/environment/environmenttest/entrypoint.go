package environmenttest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// entrypointChecks check images with an ENTRYPOINT or a HEALTHCHECK.
func entrypointChecks() []check {
	return []check{
		{"an ENTRYPOINT has done its work before the first command", checkEntrypoint},
		{"an ENTRYPOINT runs as the image's user", checkEntrypointUser},
		{"an ENTRYPOINT in shell form, or of a base image, is run", checkEntrypointForms},
		{"an ENTRYPOINT that is taken back is not run", checkEntrypointReset},
		{"what an ENTRYPOINT started lives on after a timeout", checkEntrypointLives},
		{"what an ENTRYPOINT starts later lives on after a timeout", checkEntrypointLater},
		{"an ENTRYPOINT that exits at once makes no environment, and its output is reported", checkEntrypointExits},
		{"an ENTRYPOINT that is not there makes no environment", checkEntrypointMissing},
		{"an ENTRYPOINT that exits later ends the environment and its commands", checkEntrypointEnds},
		{"an environment outlives a kill of its ENTRYPOINT from within", checkEntrypointKilled},
		{"an ENTRYPOINT that prints much holds nothing up", checkEntrypointPrints},
		{"an ENTRYPOINT that never runs its arguments is not waited for without end", checkEntrypointBusy},
		{"a creation that is cancelled while an ENTRYPOINT is waited for leaves nothing", checkEntrypointCancelled},
		{"stopping and destroying end what an ENTRYPOINT started", checkEntrypointStop},
		{"a snapshot has its image's ENTRYPOINT and HEALTHCHECK, and no process of it", needing(snapshotter, checkEntrypointSnapshot)},
		{"an image's HEALTHCHECK is reported, and nobody runs it", needing(readinessReporter, checkHealthcheck)},
		{"with a HEALTHCHECK an ENTRYPOINT is not waited for", needing(readinessReporter, checkHealthcheckFirst)},
	}
}

// enters builds an image with this script as its ENTRYPOINT, and creates an environment from it.
func (s *scene) enters(script string, change ...func(*environment.CreateOptions)) *box {
	s.Helper()
	return s.create(append([]func(*environment.CreateOptions){on(s.withEntrypoint(script)), func(o *environment.CreateOptions) {
		o.Files = []environment.Copy{s.tools()}
	}}, change...)...)
}

// withEntrypoint builds an image with this script as its ENTRYPOINT and returns its reference.
func (s *scene) withEntrypoint(script string, more ...string) string {
	s.Helper()
	return s.build(map[string]string{
		"entry.sh":   script,
		"Dockerfile": s.from() + "COPY entry.sh /entry.sh\nENTRYPOINT [\"bash\", \"/entry.sh\", \"an argument\"]\nCMD [\"never\", \"run\"]\n" + strings.Join(more, ""),
	})
}

func checkEntrypoint(s *scene) {
	ref := s.withEntrypoint(`first=$1; shift
sleep 0.5
{ cat /in/file; echo "$first, $COLOR $OWN in $PWD"; case "$*" in *never*) echo "the CMD: $*";; esac; } >/prepared
exec "$@"
`, "ENV COLOR=red\nWORKDIR /work\n")
	env := s.create(on(ref), func(o *environment.CreateOptions) {
		o.Env = map[string]string{"OWN": "and blue"}
		o.Files = []environment.Copy{{Src: files(map[string]string{"file": "the files are there\n"}), Dst: "/in"}}
	})
	s.equal("prepared", env.run("cat /prepared"), "the files are there\nan argument, red and blue in /work\n")
	if r := environment.ReadinessOf(env.Environment); r.Busy || r.Healthcheck != nil {
		s.Errorf("readiness %+v", r)
	}
}

func checkEntrypointUser(s *scene) {
	ref := s.withEntrypoint("shift; id -un >/tmp/user; exec \"$@\"\n", "USER nobody\n")
	s.equal("the user", s.create(on(ref)).run("cat /tmp/user"), "nobody\n")
}

func checkEntrypointForms(s *scene) {
	// The ENTRYPOINT gets no arguments and keeps running. The environment is created anyway,
	// because of its HEALTHCHECK.
	shell := s.build(map[string]string{"Dockerfile": s.from() + "HEALTHCHECK CMD true\nENTRYPOINT echo $# $0 >/prepared; sleep 3600\n"})
	s.equal("in shell form", s.create(on(shell)).run("until [ -s /prepared ]; do sleep 0.02; done; cut -c 1-6 /prepared"), "2 bash\n")
	base := s.withEntrypoint("shift; echo prepared >/prepared; exec \"$@\"\n")
	child := s.build(map[string]string{"Dockerfile": "FROM " + base + "\nRUN echo child >/child\n"})
	s.equal("of a base image", s.create(on(child)).run("cat /child /prepared"), "child\nprepared\n")
}

func checkEntrypointReset(s *scene) {
	ref := s.withEntrypoint("echo prepared >/prepared; exit 1\n", "ENTRYPOINT []\n")
	s.equal("prepared", s.create(on(ref)).run("test -e /prepared || echo no"), "no\n")
}

func checkEntrypointLives(s *scene) {
	env := s.enters("shift; bash /k/tick.sh service & setsid bash /k/tick.sh detached & exec \"$@\"\n")
	env.run(". /k/lib.sh; reached service 2; reached detached 2")
	timeoutEnds(s, env, "echo ready; sleep 3600")
	s.equal("the services", env.run(". /k/lib.sh; grown service 10; grown detached 10; alive $(cat /k/service.pid) || echo dead"), "")
}

func checkEntrypointLater(s *scene) {
	env := s.enters("shift; \"$@\" & until [ -e /k/go ]; do sleep 0.02; done; bash /k/tick.sh late & wait\n")
	timeoutEnds(s, env, ". /k/lib.sh; touch /k/go; reached late 2; echo ready; sleep 3600")
	s.equal("the service", env.run(". /k/lib.sh; grown late 10; alive $(cat /k/late.pid) || echo dead"), "")
}

func checkEntrypointExits(s *scene) {
	for _, code := range []string{"0", "5"} {
		ref := s.withEntrypoint("echo 'I do my own thing'; echo 'and complain' >&2; exit " + code + "\n")
		env, err := s.provider.CreateEnvironment(s.ctx, environment.CreateOptions{Image: ref, Labels: s.labels})
		if err == nil {
			err = (&box{env, s}).exec(s.ctx, "sleep 3600", environment.ExecOptions{}).err
			_ = env.Destroy(s.ctx)
		}
		s.wantKind("an ENTRYPOINT that exits", err, environment.KindStart)
		known := new(environment.Error)
		if !errors.As(err, &known) || known.Transient || !strings.Contains(known.Output, "I do my own thing") || !strings.Contains(known.Output, "and complain") {
			s.Errorf("the error has not what it printed: %+v", err)
		}
		if !strings.Contains(err.Error(), "exit code "+code) || !strings.Contains(err.Error(), "ENTRYPOINT") {
			s.Errorf("the error does not name the ENTRYPOINT and exit code %s: %v", code, err)
		}
	}
}

func checkEntrypointMissing(s *scene) {
	ref := s.build(map[string]string{"Dockerfile": s.from() + "ENTRYPOINT [\"/no/such/entrypoint\"]\n"})
	env, err := s.provider.CreateEnvironment(s.ctx, environment.CreateOptions{Image: ref, Labels: s.labels})
	if err == nil {
		_ = env.Destroy(s.ctx)
	}
	s.wantKind("CreateEnvironment", err, environment.KindStart)
	if err != nil && !strings.Contains(err.Error(), "/no/such/entrypoint") {
		s.Errorf("the error does not name the ENTRYPOINT: %v", err)
	}
}

func checkEntrypointEnds(s *scene) {
	env := s.enters("shift; \"$@\" & until [ -e /k/go ]; do sleep 0.02; done; exit 4\n")
	env.run("true")
	o := env.exec(s.ctx, "touch /k/go; sleep 3600", environment.ExecOptions{})
	s.wantKind("the command", o.err, environment.KindLost)
	s.wantKind("the next one", env.exec(s.ctx, "echo ran", environment.ExecOptions{}).err, environment.KindLost)
}

func checkEntrypointKilled(s *scene) {
	env := s.enters("shift; echo $$ >/k/pid; exec \"$@\"\n")
	env.run("kill -9 $(cat /k/pid); true")
	s.equal("the next command", env.run("echo here"), "here\n")
}

func checkEntrypointPrints(s *scene) {
	env := s.enters("shift; head -c 3000000 /dev/zero | tr '\\0' 'z'; (while :; do echo zzzzzzzzzzzzzzzzzzzzzzzz; echo x >>/k/service; done) & exec \"$@\"\n")
	s.equal("while it prints", env.run(". /k/lib.sh; grown service 5000; echo here"), "here\n")
}

func checkEntrypointBusy(s *scene) {
	if testing.Short() {
		s.Skip("it takes environment.HandoverTime")
	}
	s.ctx = context.WithoutCancel(s.ctx) // s.ctx may end before HandoverTime
	begun := time.Now()
	env := s.enters("until [ -e /k/go ]; do sleep 0.02; done; exit\n")
	if !environment.ReadinessOf(env.Environment).Busy && !s.lacks(readinessReporter) {
		s.Error("it is not told that the ENTRYPOINT is busy")
	}
	const rounding = time.Second // in case a shell measures the time
	if took := time.Since(begun); took < environment.HandoverTime-rounding {
		s.Errorf("it was waited for %v, want %v or more", took, environment.HandoverTime)
	}
	s.equal("a command", env.run("echo here"), "here\n")
}

func checkEntrypointCancelled(s *scene) {
	ref := s.withEntrypoint("sleep 3600\n")
	ctx, cancel := context.WithTimeout(s.ctx, 1500*time.Millisecond)
	defer cancel()
	env, err := s.provider.CreateEnvironment(ctx, environment.CreateOptions{Image: ref, Labels: s.labels})
	if err == nil {
		_ = env.Destroy(s.ctx)
	}
	if !errors.Is(err, context.DeadlineExceeded) || environment.IsTransient(err) {
		s.Errorf("CreateEnvironment: %v (transient: %v)", err, environment.IsTransient(err))
	}
	if left := s.listed(); len(left) > 0 {
		s.Errorf("left behind: %v", left)
	}
}

// checkEntrypointStop starts a service that writes to a file, and reads the file afterwards as far
// as possible.
func checkEntrypointStop(s *scene) {
	const service = "shift; bash /k/tick.sh service & exec \"$@\"\n"
	env := s.enters(service)
	env.run(". /k/lib.sh; reached service 2")
	if err := env.Stop(s.ctx); err != nil {
		s.Fatalf("Stop: %v", err)
	}
	s.wantKind("Exec after Stop", env.exec(s.ctx, "echo ran", environment.ExecOptions{}).err, environment.KindLost)
	if f := env.fetch("/k", environment.ExtractOptions{}); f.err == nil {
		s.equal("what the service writes", env.fetch("/k", environment.ExtractOptions{}).ok(s).text(s, "service"), f.text(s, "service"))
	}
	another := s.enters(service)
	another.run(". /k/lib.sh; reached service 2")
	if err := another.Destroy(s.ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	s.isLost(another)
}

func checkEntrypointSnapshot(s *scene) {
	ref := s.build(map[string]string{
		"entry.sh":   "echo x >>/prepared; (while :; do echo x >>/ticks; sleep 0.02; done) & echo $! >/service; exec \"$@\"\n",
		"Dockerfile": s.from() + "COPY entry.sh /entry.sh\nENTRYPOINT [\"bash\", \"/entry.sh\"]\nHEALTHCHECK --retries=7 CMD test -s /service\n",
	})
	first := s.create(on(ref))
	first.run("until [ -s /service ]; do sleep 0.02; done; echo made >/made")
	want := environment.ReadinessOf(first.Environment)
	second := s.create(on(s.snapshot(first, environment.SnapshotOptions{Key: s.key("")})))
	if got := environment.ReadinessOf(second.Environment); want.Healthcheck == nil || !reflect.DeepEqual(got, want) {
		s.Errorf("readiness %+v, want %+v", got.Healthcheck, want.Healthcheck)
	}
	s.equal("in the snapshot", second.run("until [ $(wc -l </prepared) -gt 1 ]; do sleep 0.02; done; cat /made /prepared"), "made\nx\nx\n")
}

func checkHealthcheck(s *scene) {
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
		env := s.create(on(s.build(map[string]string{"Dockerfile": s.from() + tc.lines})))
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
		s.equal("checked", env.run("test -e /checked || echo no"), "no\n")
		if h := got.Healthcheck; h != nil {
			env.run(h.Script())
			s.equal("checked", env.run("test -e /checked && echo yes"), "yes\n")
		}
	}
}

func checkHealthcheckFirst(s *scene) {
	ref := s.withEntrypoint("until [ -e /go ]; do sleep 0.02; done; shift; touch /went; exec \"$@\"\n", "HEALTHCHECK CMD test -e /went\n")
	env := s.create(on(ref))
	if r := environment.ReadinessOf(env.Environment); r.Busy || r.Healthcheck == nil || !slices.Contains(r.Healthcheck.Args, "test -e /went") {
		s.Errorf("readiness %+v", r)
	}
	s.equal("the ENTRYPOINT", env.run("test -e /went || echo waits; touch /go; until [ -e /went ]; do sleep 0.02; done; echo went"), "waits\nwent\n")
}
