package trial_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/trial"
)

// cached returns an agent whose install script runs once, and which no other test has. It is
// installed if /opt/installed has one line.
func cached(install string) agent.Agent {
	return agent.Agent{
		Name: "scripted", CacheInstall: new(true),
		Install: "# " + rand.Text() + "\necho " + rand.Text() + " >>/opt/installed\necho the script prints\n" + install,
		Execute: "n=0; while read -r _; do n=$((n+1)); done </opt/installed; test $n = 1 || exit 9; cp /opt/installed /logs/agent/installed\n",
	}
}

// counted adds the number of runs of a script to n.
func counted(script string, n *atomic.Int32) hooks {
	return hooks{before: func(_ context.Context, c call) error {
		if c.op == "exec" && c.script == script {
			n.Add(1)
		}
		return nil
	}}
}

// layerScene returns a scene whose layers are removed at its end.
func (p place) layerScene(t *testing.T, s story) *scene {
	sc := p.newScene(t, s)
	t.Cleanup(func() {
		for _, img := range sc.layersLeft() {
			if err := sc.images().RemoveImage(context.Background(), img.ID); err != nil {
				t.Error(err)
			}
		}
	})
	return sc
}

// images returns the provider as an ImageStore.
func (sc *scene) images() environment.ImageStore {
	sc.t.Helper()
	store, ok := environment.As[environment.ImageStore](sc.provider)
	if !ok {
		sc.t.Fatal("the provider keeps no images")
	}
	return store
}

// layersLeft returns the layers that this job has made.
func (sc *scene) layersLeft() []environment.Image {
	sc.t.Helper()
	all, err := sc.images().Images(context.Background())
	if err != nil {
		sc.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(i environment.Image) bool { return !strings.Contains(i.Name, sc.job.Name) })
}

// anew prepares the same job on the same provider, as another process would.
func (sc *scene) anew(s story) {
	sc.runner = trial.NewRunner(trial.Options{
		Provider: &hooked{Provider: sc.provider, hooks: s.hooks}, Job: sc.job, Redactor: redact.New(s.secrets),
		Emit: func(e event.Event) {
			if s.emit != nil {
				s.emit(e)
			}
		},
	})
}

// runMany runs attempts at a task side by side.
func (sc *scene) runMany(s story, t *task.Task, n int) []outcome {
	outcomes := make([]outcome, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { outcomes[i] = sc.run(s, t, i+1) })
	}
	group.Wait()
	return outcomes
}

func TestManyTrialsInstallOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var installs atomic.Int32
		s := story{agent: cached(""), hooks: counted("install.sh", &installs)}
		sc := p.layerScene(t, s)
		tk := s.task(t, p)
		outcomes := sc.runMany(s, tk, 20)
		if n := installs.Load(); n != 1 {
			t.Fatalf("20 trials ran the install script %d times", n)
		}
		installed, makers := "", 0
		for _, o := range outcomes {
			o.check(t, want{reward: "1"})
			installed = cmp.Or(installed, o.file(t, "logs/agent/installed"))
			if got := o.file(t, "logs/agent/installed"); got != installed {
				t.Errorf("installed %q, and others have %q", got, installed)
			}
			layer, span := o.Trial.Environment.AgentLayer, o.Trial.Durations.AgentSetupSec
			switch {
			case layer == nil || layer.Image == "" || layer.Image == o.Trial.Environment.Image:
				t.Errorf("the layer is %+v, the image %q", layer, o.Trial.Environment.Image)
			case !layer.Cached:
				makers++
				if span == nil || layer.From != "" {
					t.Errorf("the trial that installed took %v for it, and has %+v", span, layer)
				}
				contains(t, "setup/stdout.txt", o.file(t, "setup/stdout.txt"), "the script prints\n")
			default:
				if span != nil {
					t.Errorf("a trial that did not install took %vs for it", *span)
				}
				contains(t, "from", layer.From, "scripted", sc.job.Name)
				contains(t, "setup/stdout.txt", o.file(t, "setup/stdout.txt"), "did not run here", layer.From)
			}
		}
		if makers != 1 {
			t.Errorf("%d trials say that they have installed", makers)
		}

		sc.anew(s)
		o := sc.run(s, tk, 21)
		o.check(t, want{reward: "1"})
		if n := installs.Load(); n != 1 || !o.Trial.Environment.AgentLayer.Cached {
			t.Errorf("a later job on the same image ran the install script: %d runs, %+v", n, o.Trial.Environment.AgentLayer)
		}
	})
}

// TestLayerHasSameFilesAsInstall: an environment on a layer has the same files as one in which the
// agent was installed.
func TestLayerHasSameFilesAsInstall(t *testing.T) {
	inPlaces(t, realPlaces, func(t *testing.T, p place) {
		s := story{agent: cached("mkdir -m 0700 /opt/private; ln -s /opt/installed /usr/local/bin/installed; rm -rf /srv; echo log >/logs/agent/of-install; echo >/logs/more\n")}
		s.agent.Install = "rm -f /etc/motd; " + s.agent.Install + "test -d /logs/verifier -a -e /rollout/install.sh -a -n \"$ROLLOUT_TASK_INSTRUCTION\"\n"
		s.agent.Execute = `list=$(find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /usr/share -o -path /usr/lib -o -path /var/lib \) -prune -o -printf '%p %y %m %U %G %l\n' | sort)
cat "$ROLLOUT_TASK_INSTRUCTION" >/logs/agent/instruction
echo "$list" >/logs/agent/list; ps ax >/logs/agent/ps 2>&1 || true; pwd >/logs/agent/pwd; export -p >/logs/agent/env` + "\n"
		sc := p.layerScene(t, s)
		tk := s.task(t, p)
		outcomes := []outcome{sc.run(s, tk, 1), sc.run(s, tk, 2)}
		if files := outcomes[0].file(t, "setup/logs/agent/of-install"); files != "log\n" {
			t.Errorf("what the script wrote to /logs is kept as %q", files)
		}
		plain := s
		plain.agent.CacheInstall = nil
		plain.agent.Install = strings.ReplaceAll(s.agent.Install, "echo log >/logs/agent/of-install; echo >/logs/more", ":")
		want := sc.run(plain, tk, 3)
		want.check(t, wantReward)
		if n := len(lines(want.file(t, "logs/agent/list"))); n < 100 {
			t.Errorf("only %d files are compared", n)
		}
		for i, o := range outcomes {
			o.check(t, wantReward)
			for _, name := range []string{"instruction", "list", "pwd"} {
				if got, plain := lines(o.file(t, "logs/agent/"+name)), lines(want.file(t, "logs/agent/"+name)); !slices.Equal(got, plain) {
					t.Errorf("trial %d on a layer: %s differs: only there %q, only without: %q", i+1, name, without(got, plain), without(plain, got))
				}
			}
			if o.has("logs/agent/of-install") || o.has("logs/more") {
				t.Error("the logs of the install script are among the trial's")
			}
		}
	})
}

var wantReward = want{reward: "1"}

func lines(text string) []string { return strings.Split(text, "\n") }

// without returns the lines of a that are not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) })
}

// TestLayersHaveNoSecrets: a secret that a script leaves in files is in no image, and the trials
// continue without a layer.
func TestLayersHaveNoSecrets(t *testing.T) {
	const secret = "hunter2-c0rrect-h0rse"
	for _, tc := range []struct {
		name, install, file string
		real                bool // it takes programs
	}{
		{name: "a file of settings", install: "mkdir -p ~/.config/agent; echo \"token = $TOKEN\" >~/.config/agent/settings", file: ".config/agent/settings"},
		{name: "a file's name", install: "touch \"/opt/$TOKEN.lock\"", file: "/opt/***.lock"},
		{name: "a link", install: "ln -s \"https://user:$TOKEN@example.invalid\" /opt/remote", file: "/opt/remote"},
		{name: "an archive", install: "cd /opt; echo \"$TOKEN\" >f; tar -cf kept.tar f; rm f", file: "/opt/kept.tar", real: true},
		{name: "base64", install: "printf 'user:%s' \"$TOKEN\" | base64 >/opt/auth", file: "/opt/auth", real: true},
		{name: "the end of a large file", install: "{ head -c 3000000 /dev/zero; printf %s \"$TOKEN\"; } >/opt/large", file: "/opt/large", real: true},
		{name: "a file that nobody may read", install: "echo \"$TOKEN\" >/opt/mine; chmod 0 /opt/mine", file: "/opt/mine"},
		{name: "a file of the image that was changed", install: "echo \"# $TOKEN\" >>/etc/passwd", file: "/etc/passwd"},
		{name: "an extended attribute", install: "command -v python3 >/dev/null || exit 0; touch /opt/x; python3 -c 'import os; os.setxattr(\"/opt/x\", \"user.token\", os.environ[\"TOKEN\"].encode())' || { echo \"$TOKEN\" >/opt/x; }", file: "/opt/x", real: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, p place) {
				if tc.real && !p.kernel {
					return
				}
				if tc.name == "an extended attribute" && p.name == "docker" {
					return // commits do not keep them
				}
				var installs atomic.Int32
				s := story{agent: cached(tc.install + "\n"), env: map[string]string{"TOKEN": secret}, secrets: []string{secret}, hooks: counted("install.sh", &installs)}
				s.agent.Env = map[string]string{"TOKEN": "${TOKEN}"}
				sc := p.layerScene(t, s)
				tk := s.task(t, p)
				for n := range 2 {
					o := sc.run(s, tk, n+1)
					o.check(t, wantReward)
					contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), tc.file, "redact.except", "installed in every trial")
					if strings.Contains(fmt.Sprint(o.Trial), secret) {
						t.Errorf("the secret is in the result: %+v", o.Trial)
					}
					if o.Trial.Environment.AgentLayer != nil || o.Trial.Durations.AgentSetupSec == nil {
						t.Errorf("layer %+v, agent setup %v", o.Trial.Environment.AgentLayer, o.Trial.Durations.AgentSetupSec)
					}
				}
				if n := installs.Load(); n != 3 { // once for nothing
					t.Errorf("the script ran %d times for two trials, want 3", n)
				}
				if left := sc.layersLeft(); len(left) > 0 {
					t.Errorf("kept: %+v", left)
				}
			})
		})
	}
}

// TestInstallScriptMayUseSecrets: only keeping them is wrong.
func TestInstallScriptMayUseSecrets(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		const secret = "hunter2-c0rrect-h0rse"
		s := story{
			agent: cached("test \"$TOKEN\" = " + "hunter2\"-\"c0rrect-h0rse && echo \"$TOKEN\" >/opt/t && rm /opt/t && echo \"printed: $TOKEN\"\n"),
			env:   map[string]string{"TOKEN": secret}, secrets: []string{secret},
		}
		s.agent.Env = map[string]string{"TOKEN": "${TOKEN}"}
		sc := p.layerScene(t, s)
		tk := s.task(t, p)
		first, second := sc.run(s, tk, 1), sc.run(s, tk, 2)
		first.check(t, wantReward)
		second.check(t, wantReward)
		contains(t, "output", first.file(t, "setup/stdout.txt"), "printed: ***")
		if layer := second.Trial.Environment.AgentLayer; layer == nil || !layer.Cached {
			t.Errorf("layer %+v, warnings %q", layer, second.Trial.Warnings)
		}
	})
}

// waiters blocks the install script until so many trials wait for it.
type waiters struct {
	n      int32
	heard  atomic.Int32
	enough chan struct{}
}

func newWaiters(n int32) *waiters { return &waiters{n: n, enough: make(chan struct{})} }

func (w *waiters) emit(e event.Event) {
	if e.Kind == event.Progress && strings.Contains(e.Message, "waiting for") && w.heard.Add(1) == w.n {
		close(w.enough)
	}
}

func TestFailedInstallFailsWaitingTrials(t *testing.T) {
	t.Parallel()
	var installs atomic.Int32
	w := newWaiters(3)
	s := story{agent: cached("exit 3\n"), emit: w.emit, hooks: hooks{before: func(_ context.Context, c call) error {
		if c.script == "install.sh" && installs.Add(1) == 1 {
			<-w.enough
		}
		return nil
	}}}
	sc := fakePlace.layerScene(t, s)
	tk := s.task(t, fakePlace)
	waited := 0
	for _, o := range sc.runMany(s, tk, 4) {
		o.check(t, want{err: result.AgentInstallFailed, says: []string{"exit code 3"}})
		if strings.Contains(o.Trial.Error.Message, "waited for scripted/tests/puzzle__") {
			waited++
		}
	}
	if installs.Load() != 1 || waited != 3 {
		t.Errorf("the script ran %d times, and %d of 4 trials waited", installs.Load(), waited)
	}
	sc.run(s, tk, 5).check(t, want{err: result.AgentInstallFailed})
	if installs.Load() != 2 {
		t.Errorf("the script ran %d times after the next trial came", installs.Load())
	}
}

func TestInstallIsNotRepeatedAfterThreeTimeouts(t *testing.T) {
	t.Parallel()
	var installs atomic.Int32
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := story{agent: cached("sleep 1000\n"), toml: "agent.install_timeout_sec = 0.2\n", hooks: hooks{before: func(_ context.Context, c call) error {
		if c.script == "install.sh" && installs.Add(1) == 4 {
			cancel()
		}
		return nil
	}}}
	sc := fakePlace.layerScene(t, s)
	tk := s.task(t, fakePlace)
	for n := range 5 {
		sc.run(s, tk, n+1).check(t, want{err: result.AgentInstallTimeout, says: []string{"0.2 seconds"}})
	}
	if n := installs.Load(); n != 3 {
		t.Errorf("a script that always times out ran %d times, want 3", n)
	}
	s.toml, s.ctx = "agent.install_timeout_sec = 100\n", ctx // the same layer, with more time
	sc.run(s, s.task(t, fakePlace), 6).check(t, want{err: result.Cancelled})
	if n := installs.Load(); n != 4 {
		t.Errorf("a trial that gives the script more time did not try: %d runs", n)
	}
}

func TestWaitingTrialInstallsAfterCancelOrLoss(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		end  func(cancel func(), c call) error // of the first
	}{
		{"when the first is cancelled", func(cancel func(), _ call) error { cancel(); return nil }},
		{"when the first loses its environment for good", func(_ func(), c call) error { return fakePlace.loses(c) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var installs atomic.Int32
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			w := newWaiters(1)
			began := make(chan struct{})
			s := story{agent: cached(""), emit: w.emit, hooks: hooks{before: func(_ context.Context, c call) error {
				if c.script == "install.sh" && installs.Add(1) == 1 {
					close(began)
					<-w.enough
					return tc.end(cancel, c)
				}
				return nil
			}}, job: func(j *config.Job) { j.Retry.MaxAttempts = 1 }}
			sc := fakePlace.layerScene(t, s)
			tk := s.task(t, fakePlace)
			var first outcome
			var group sync.WaitGroup
			group.Go(func() {
				ended := s
				ended.ctx = ctx
				first = sc.run(ended, tk, 1)
			})
			<-began
			second := sc.run(s, tk, 2)
			group.Wait()
			if first.Trial.Error == nil {
				t.Error("the first trial went on")
			}
			second.check(t, wantReward)
			if layer := second.Trial.Environment.AgentLayer; installs.Load() != 2 || layer == nil || layer.Cached {
				t.Errorf("%d installs, layer of the second: %+v", installs.Load(), layer)
			}
		})
	}
}

// loses removes the environment of a call.
func (p place) loses(c call) error {
	in := c.in
	for {
		h, ok := in.(*hooked)
		if !ok {
			return p.lose(in, c.env.ID())
		}
		in = h.Provider
	}
}

func TestInstallStartsOverInNewEnvironment(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var installs atomic.Int32
		s := story{agent: cached(""), hooks: hooks{before: func(_ context.Context, c call) error {
			if c.script == "install.sh" && installs.Add(1) == 1 {
				return p.loses(c)
			}
			return nil
		}}}
		sc := p.layerScene(t, s)
		o := sc.run(s, s.task(t, p), 1)
		o.check(t, wantReward)
		if layer := o.Trial.Environment.AgentLayer; installs.Load() != 2 || layer == nil || layer.Cached {
			t.Errorf("%d installs, layer %+v", installs.Load(), layer)
		}
	})
}

func TestFailedSnapshotInstallsInEveryTrial(t *testing.T) {
	t.Parallel()
	var installs atomic.Int32
	cannot := &environment.Error{Kind: environment.KindSnapshot, Err: errors.New("its files are elsewhere")}
	s := story{agent: cached(""), hooks: hooks{before: func(_ context.Context, c call) error {
		if c.script == "install.sh" {
			installs.Add(1)
		}
		if c.op == "snapshot" {
			return cannot
		}
		return nil
	}}}
	sc := fakePlace.layerScene(t, s)
	tk := s.task(t, fakePlace)
	for n := range 3 {
		o := sc.run(s, tk, n+1)
		o.check(t, wantReward)
		contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "its files are elsewhere")
	}
	if n := installs.Load(); n != 4 {
		t.Errorf("the script ran %d times for 3 trials, want 4: once for nothing", n)
	}
}

func TestRemovedLayerIsMadeAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var installs atomic.Int32
		s := story{agent: cached(""), hooks: counted("install.sh", &installs)}
		sc := p.layerScene(t, s)
		tk := s.task(t, p)
		sc.run(s, tk, 1).check(t, wantReward)
		for _, img := range sc.layersLeft() {
			if err := sc.images().RemoveImage(t.Context(), img.ID); err != nil {
				t.Fatal(err)
			}
		}
		sc.run(s, tk, 2).check(t, wantReward)
		if n := installs.Load(); n != 2 {
			t.Errorf("the script ran %d times", n)
		}
	})
}

// TestLayerDependsOnWhatScriptSees: a layer depends on everything that the script can see, except
// the values of secrets.
func TestLayerDependsOnWhatScriptSees(t *testing.T) {
	t.Parallel()
	var installs atomic.Int32
	base := story{
		agent: cached(""), hooks: counted("install.sh", &installs),
		env: map[string]string{"MODEL": "small", "TOKEN": "hunter2-c0rrect-h0rse", "LEVEL": "one"},
	}
	base.agent.Env = map[string]string{"MODEL": "small", "TOKEN": "${TOKEN}", "LEVEL": "${LEVEL}"}
	sc := fakePlace.layerScene(t, base)
	sc.job.Redact.Except = []string{"LEVEL"}
	sc.anew(base)
	plain := base.task(t, fakePlace)
	change := func(agent func(*agent.Agent), env map[string]string) story {
		s := base
		s.agent.Env, s.env = map[string]string{}, map[string]string{}
		for name, value := range base.env {
			s.agent.Env[name], s.env[name] = base.agent.Env[name], value
		}
		for name, value := range env {
			s.env[name] = value
		}
		if agent != nil {
			agent(&s.agent)
		}
		return s
	}
	other := base
	other.toml = "environment.docker_image = \"another:1\"\n"
	checked := base
	checked.toml = "environment.healthcheck.command = \"touch /of-the-task\"\n"
	for i, tc := range []struct {
		name string
		s    story
		t    *task.Task
		more int32 // installs
	}{
		{"the first", base, plain, 1},
		{"nothing else", change(nil, nil), plain, 0},
		{"another name of the agent", change(func(a *agent.Agent) { a.Name = "renamed" }, nil), plain, 0},
		{"another execute script", change(func(a *agent.Agent) { a.Execute += "true\n" }, nil), plain, 0},
		{"another value of a secret", change(nil, map[string]string{"TOKEN": "another-s3cret"}), plain, 0},
		{"another install script", change(func(a *agent.Agent) { a.Install += "true\n" }, nil), plain, 1},
		{"another literal value", change(func(a *agent.Agent) { a.Env["MODEL"] = "large" }, map[string]string{"MODEL": "large"}), plain, 1},
		{"another value that is no secret", change(nil, map[string]string{"LEVEL": "two"}), plain, 1},
		{"another variable", change(func(a *agent.Agent) { a.Env["MORE"] = "1" }, map[string]string{"MORE": "1"}), plain, 1},
		{"another healthcheck, which runs before the script", checked, checked.task(t, fakePlace), 1},
		{"another image", other, other.task(t, fakePlace), 1},
	} {
		before := installs.Load()
		sc.run(tc.s, tc.t, i+1).check(t, wantReward)
		if got := installs.Load() - before; got != tc.more {
			t.Errorf("%s: %d installs, want %d", tc.name, got, tc.more)
		}
	}
}

// TestLayerHasNoVariables: neither the task's nor the agent's are the image's, though the script
// sees them.
func TestLayerHasNoVariables(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := story{
			agent: cached("test \"$OF_TASK $OF_AGENT $OF_BOTH\" = \"task agent agent\"\n"),
			env:   map[string]string{"OF_AGENT": "agent", "OF_BOTH": "agent"},
			toml:  "[environment.env]\nOF_TASK = \"task\"\nOF_BOTH = \"task\"\n",
		}
		s.agent.Env = s.env
		s.agent.Execute += "test \"$OF_TASK $OF_AGENT $OF_BOTH\" = \"task agent agent\"\n"
		sc := p.layerScene(t, s)
		tk := s.task(t, p)
		var layer *result.AgentLayer
		for n := range 2 {
			o := sc.run(s, tk, n+1)
			o.check(t, wantReward)
			if layer = o.Trial.Environment.AgentLayer; layer == nil || layer.Cached != (n > 0) {
				t.Fatalf("trial %d: layer %+v, warnings %q", n+1, layer, o.Trial.Warnings)
			}
		}
		env, err := sc.provider.CreateEnvironment(t.Context(), environment.CreateOptions{Image: layer.Image, Labels: environment.Labels{Job: sc.job.Name}})
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		if _, err := env.Exec(t.Context(), `echo "$OF_TASK$OF_AGENT$OF_BOTH$ROLLOUT_TASK_INSTRUCTION."`, environment.ExecOptions{Stdout: &said}); err != nil || said.String() != ".\n" {
			t.Errorf("the image has variables: %q, %v", said.String(), err)
		}
		if err := env.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestCancelWhileLayerIsMade leaves neither an environment nor a layer, and the next trial makes
// it.
func TestCancelWhileLayerIsMade(t *testing.T) {
	for _, at := range []string{"exec", "snapshot"} {
		t.Run(at, func(t *testing.T) {
			everywhere(t, func(t *testing.T, p place) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				s := story{agent: cached("sleep 1\n"), hooks: hooks{before: func(_ context.Context, c call) error {
					if c.op == at && (c.script == "install.sh" || at == "snapshot") {
						cancel()
					}
					return nil
				}}}
				sc := p.layerScene(t, s)
				tk := s.task(t, p)
				s.ctx = ctx
				sc.run(s, tk, 1).check(t, want{err: result.Cancelled})
				if left := sc.layersLeft(); len(left) > 0 {
					t.Errorf("kept: %+v", left)
				}
				if left := sc.listed(); len(left) > 0 {
					t.Errorf("left behind: %+v", left)
				}
				s.ctx = nil
				o := sc.run(s, tk, 2)
				o.check(t, wantReward)
				if layer := o.Trial.Environment.AgentLayer; layer == nil || layer.Cached {
					t.Errorf("layer %+v", layer)
				}
			})
		})
	}
}
