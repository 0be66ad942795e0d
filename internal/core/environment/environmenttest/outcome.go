package environmenttest

import (
	"context"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// outcomeChecks check the files that KeepOutcome keeps of an environment that goes on.
func outcomeChecks() []check {
	return []check{
		{"an outcome has the files of its moment, and is continued with them", needing(outcomeKeeper, checkOutcomeFiles)},
		{"an outcome is complete to the owner, the time and the link", needing(outcomeKeeper, checkOutcomeDetails)},
		{"an outcome is listed as kept, with its labels and its size, and can be removed", needing(outcomeKeeper, checkOutcomeListed)},
		{"processes go on after an outcome is kept", needing(outcomeKeeper, checkOutcomeProcesses)},
		{"an outcome has the files of one moment although they change", needing(outcomeKeeper, checkOutcomeConsistent)},
		{"an outcome has no values of variables", needing(outcomeKeeper, checkOutcomeVariables)},
		{"an outcome is refused that would lack files in memory", needing(outcomeKeeper, checkOutcomeMemory)},
		{"an outcome that is cancelled is not kept, and processes go on", needing(outcomeKeeper, checkOutcomeCancelled)},
		{"nothing is kept of an environment that is gone", needing(outcomeKeeper, checkOutcomeGone)},
	}
}

// keep keeps the outcome of an environment, and removes it at the end.
func (b *box) keep() environment.Outcome {
	b.s.Helper()
	var kept environment.Outcome
	var err error
	b.s.within("KeepOutcome", func() { kept, err = environment.KeepOutcome(b.s.ctx, b.Environment) })
	if err != nil {
		b.s.Fatalf("KeepOutcome: %v", err)
	}
	b.s.Cleanup(func() {
		if err := b.s.provider.Remove(b.s.ctx, kept.ID); err != nil {
			b.s.Errorf("Remove of an outcome: %v", err)
		}
	})
	return kept
}

// continued starts an environment with the files of an outcome.
func (s *scene) continued(kept environment.Outcome) *box {
	s.Helper()
	b, err := s.restore(kept.ID)
	if err != nil {
		s.Fatalf("Restore: %v", err)
	}
	return b
}

func checkOutcomeFiles(s *scene) {
	env := s.create()
	env.run("mkdir -p /made/below; echo first >/made/file; echo x >/made/below/x; ln -s file /made/link; echo '#' >>/etc/passwd; rm -rf /opt")
	const state = "cat /made/link /made/below/x; tail -n 1 /etc/passwd; test -e /opt || echo none; test -e /later || echo never"
	before := env.run(state)
	kept := env.keep()
	env.run("echo second >/made/file; rm -r /made/below; mkdir /opt; touch /later; echo '# again' >>/etc/passwd")
	if again := env.keep(); again.ID == kept.ID || again.ID == env.ID() {
		s.Errorf("two outcomes of %s have the ids %s and %s", env.ID(), kept.ID, again.ID)
	}
	if err := env.Destroy(s.ctx); err != nil {
		s.Errorf("Destroy: %v", err)
	}
	for range 2 {
		b := s.continued(kept)
		s.equal("the files", b.run(state), before)
		b.run("echo third >/made/file; rm /made/link; touch /later")
		if err := b.Destroy(s.ctx); err != nil {
			s.Errorf("Destroy: %v", err)
		}
	}
}

func checkOutcomeDetails(s *scene) {
	env := s.create()
	env.run(`mkdir -p /made/closed /made/sticky; cd /made
echo program >program; chmod 6755 program; echo hard >hard; ln hard "har\d"; truncate -s 16M sparse; mkfifo pipe; touch -d @1000000000 old
echo deep >closed/deep; chmod 000 closed; chmod 1777 sticky; ln -s /nowhere link; touch -h -d @1000000001 link; chmod 700 /root; rm -rf /usr/share/doc; mkdir /usr/share/doc
: >"$(printf 'line\nbreak')"`)
	const state = `cd /made; stat -c '%n %a %u:%g %h %s %F' * | sort; stat -c '%n %Y' old link; cat closed/deep; readlink link; test hard -ef "har\d" && echo one; stat -c %a /root; ls -A /usr/share/doc`
	before := env.run(state)
	b := s.continued(env.keep())
	s.equal("the files", b.run(state), before)
}

func checkOutcomeListed(s *scene) {
	env := s.create()
	env.run("for i in 1 2 3 4 5 6 7 8; do echo 12345678; done >/made; for i in 1 2 3 4 5 6 7 8; do cat /made /made >/double; cat /double >/made; done")
	kept := env.keep()
	other := s.newProvider()
	found := func() (is *environment.Listed) {
		all, err := other.List(s.ctx)
		if err != nil {
			s.Fatalf("List: %v", err)
		}
		for _, l := range all {
			if l.ID == kept.ID {
				is = &l
			}
		}
		return is
	}
	l := found()
	if l == nil {
		s.Fatalf("%s is not listed", kept.ID)
	}
	if l.Labels != s.labels || !l.Kept {
		s.Errorf("listed as %+v, want it kept, with the labels %+v", l, s.labels)
	}
	const wrote = 36 << 10
	if kept.Size < wrote || l.Size < wrote || kept.Size > 1<<30 {
		s.Errorf("the sizes are %d and %d, want at least %d bytes, and not those of the image", kept.Size, l.Size, wrote)
	}
	if err := other.Remove(s.ctx, kept.ID); err != nil {
		s.Errorf("Remove: %v", err)
	}
	if l := found(); l != nil {
		s.Errorf("after Remove: %+v", l)
	}
	if err := other.Remove(s.ctx, kept.ID); err != nil {
		s.Errorf("Remove of what is gone: %v", err)
	}
	s.equal("the environment", env.run("wc -l </made"), "2048\n")
}

// counting is a script that counts in the background, in two files.
const counting = `mkdir -p /made
(i=0; while :; do i=$((i+1)); echo $i >/made/first; echo $i >/made/second; done) >/dev/null 2>&1 &
echo $! >/made/id
until test -s /made/second; do sleep 0.01; done`

func checkOutcomeProcesses(s *scene) {
	env := s.create()
	env.run(counting)
	env.run("sleep 100000 >/dev/null 2>&1 & echo $! >/made/stopped; kill -STOP $!; until grep -q '^State:.T' /proc/$!/status; do sleep 0.01; done")
	b := s.continued(env.keep())
	// It counts on, as the same process.
	env.run(`kill -0 $(cat /made/id); at=; until test "$at"; do at=$(cat /made/second); done; while n=$(cat /made/second); test "${n:-$at}" = "$at"; do sleep 0.01; done`)
	env.run("grep -q '^State:.T' /proc/$(cat /made/stopped)/status")
	// The id may be that of another process there, also of this script: it does not have the word
	// that it searches for.
	b.run("! test -e /proc/$(cat /made/id)/fd || ! grep -q 'fir[s]t' /proc/$(cat /made/id)/cmdline")
}

func checkOutcomeConsistent(s *scene) {
	env := s.create()
	n := "2000"
	if s.opts.brief() {
		n = "200"
	}
	// One process renumbers many files, so that a copy of files that change has numbers of several
	// rounds.
	env.run(`mkdir -p /made; cd /made
(i=0; while :; do i=$((i+1)); for f in {1..` + n + `}; do echo $i >$f; done; done) >/dev/null 2>&1 &
until test "$(cat 1 2>/dev/null)" -gt 1 2>/dev/null; do sleep 0.01; done`)
	b := s.continued(env.keep())
	// An empty file was just being written.
	got := b.run(`set -e; cd /made; test "$(ls | wc -l)" -eq ` + n + `; a=$(cat 1); for f in {1..` + n + `}; do n=$(cat $f); echo $((n ? ${a:-$n} - n : 0)); done | uniq -c | wc -l`)
	if rounds := strings.TrimSpace(got); rounds != "1" && rounds != "2" && rounds != "3" {
		s.Errorf("the files change %s times from one number to another, want once at most", rounds)
	}
}

func checkOutcomeVariables(s *scene) {
	env := s.create(func(o *environment.CreateOptions) {
		o.Env = map[string]string{"WHO": "a secret value", "HOME": "/another"}
	})
	s.equal("the variable", env.run("echo $WHO"), "a secret value\n")
	kept, err := environment.KeepOutcome(s.ctx, env.Environment)
	if err != nil {
		s.wantKind("KeepOutcome", err, environment.KindSnapshot)
		if list := s.listed(); len(list) != 1 {
			s.Errorf("listed: %+v, want the environment alone", list)
		}
		s.equal("the variable", env.run("echo $WHO"), "a secret value\n")
		return
	}
	defer s.provider.Remove(s.ctx, kept.ID)
	b := s.continued(kept)
	defer b.Destroy(s.ctx)
	s.equal("the variable", b.run("echo $WHO; echo $PATH; env | grep -c -e secret -e another || true"), "\n"+env.run("echo $PATH")+"0\n")
}

func checkOutcomeMemory(s *scene) {
	env := s.create()
	env.run(counting + "; echo secret >/dev/shm/file")
	kept, err := environment.KeepOutcome(s.ctx, env.Environment)
	s.wantKind("KeepOutcome", err, environment.KindSnapshot)
	if err != nil && !strings.Contains(err.Error(), "/dev/shm/file") {
		s.Errorf("the error does not name the file: %v", err)
	}
	if list := s.listed(); len(list) != 1 || kept.ID != "" {
		s.Errorf("kept %q; listed: %+v", kept.ID, list)
	}
	env.run("rm /dev/shm/file; kill -0 $(cat /made/id)")
	env.keep()
}

func checkOutcomeCancelled(s *scene) {
	env := s.create()
	env.run("echo before >/made")
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	var kept environment.Outcome
	var err error
	s.within("KeepOutcome", func() { kept, err = environment.KeepOutcome(ctx, env.Environment) })
	if err == nil || kept.ID != "" {
		s.Errorf("KeepOutcome of a cancelled context: %q, %v", kept.ID, err)
	}
	if list := s.listed(); len(list) != 1 {
		s.Errorf("listed: %+v, want the environment alone", list)
	}
	s.equal("the environment", env.run("cat /made"), "before\n")
	// Whenever it is cancelled, either the whole outcome is kept or nothing.
	for _, delay := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(s.ctx, delay)
		kept, err := environment.KeepOutcome(ctx, env.Environment)
		cancel()
		if err == nil {
			if err := s.provider.Remove(s.ctx, kept.ID); err != nil {
				s.Errorf("Remove: %v", err)
			}
		}
		if list := s.listed(); len(list) != 1 {
			s.Errorf("cancelled after %v, with %v: listed %+v, want the environment alone", delay, err, list)
		}
		s.equal("the environment", env.run("cat /made"), "before\n")
	}
}

func checkOutcomeGone(s *scene) {
	env := s.create()
	if err := env.Destroy(s.ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	_, err := environment.KeepOutcome(s.ctx, env.Environment)
	s.wantKind("KeepOutcome", err, environment.KindLost)
	if list := s.listed(); len(list) > 0 {
		s.Errorf("listed: %+v", list)
	}
}
