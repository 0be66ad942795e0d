package trial_test

import (
	"context"
	"crypto/rand"
	"io"
	"log"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
)

// dockerfile returns a task whose image is built from this text, and by no earlier test.
func dockerfile(text string) map[string]string {
	return map[string]string{"environment/Dockerfile": text, "environment/nonce": rand.Text()}
}

// emptyRegistry is the address of a registry that has no images, on this machine.
func emptyRegistry(t *testing.T) string {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestImages(t *testing.T) {
	t.Parallel()
	nowhere := emptyRegistry(t)
	for _, tc := range []struct {
		tale
		strict bool // where something could stand in for an image, it must not
		users  bool // it needs other users than root
	}{
		{tale: tale{
			name:  "a failed command in the Dockerfile, with the last lines of its output",
			story: story{files: dockerfile("FROM {{image}}\nCOPY nonce /\nRUN echo the answer is $((6*7)) && false\n")},
			want:  want{err: result.EnvironmentBuildFailed, says: []string{"Dockerfile:3: RUN echo", "exit code 1, after it printed: the answer is 42", "correct the files in environment/", "error.txt"}, detail: []string{"the answer is 42"}},
		}},
		{tale: tale{
			name:  "a long command that prints much, and says why at its end",
			story: story{files: dockerfile("FROM {{image}}\nCOPY nonce /\nRUN for i in $(seq 1 30); do echo \"Collecting package number $i from the mirror\"; done; echo ERROR: no package foo==$((3*3)); exit 1\n")},
			want: want{err: result.EnvironmentBuildFailed, says: []string{
				"…: exit code 1, after it printed: ERROR: no package foo==9 (before that: Collecting package number 29 from the mirror | Collecting package number 30 from the mirror)",
			}},
		}},
		{tale: tale{
			name:  "a Dockerfile with a syntax error",
			story: story{files: dockerfile("FROM {{image}}\nRUNN true\n")},
			want:  want{err: result.EnvironmentBuildFailed, says: []string{"RUNN"}},
		}},
		{tale: tale{
			name:  "a base image that does not exist",
			story: story{files: dockerfile("FROM " + nowhere + "/none/such:1\n")},
			want:  want{err: result.EnvironmentBuildFailed, says: []string{"none/such:1"}},
		}, strict: true},
		{tale: tale{
			name:  "a build that outlasts its timeout",
			story: story{files: dockerfile("FROM {{image}}\nCOPY nonce /\nRUN sleep 1000\n"), toml: "environment.build_timeout_sec = 2\n"},
			want:  want{err: result.EnvironmentBuildTimeout, says: []string{"timeout of 2 seconds", "environment.build_timeout_sec"}},
		}},
		{tale: tale{
			name:  "a docker_image that does not exist",
			story: story{toml: "environment.docker_image = \"" + nowhere + "/none/such:1\"\n"},
			want:  want{err: result.EnvironmentImagePullFailed, says: []string{"none/such:1"}},
		}, strict: true},
		{tale: tale{
			name:  "an image without bash",
			story: story{files: dockerfile("FROM scratch\nCOPY nonce /\n")},
			want:  want{err: result.EnvironmentStartFailed, says: []string{"bash"}},
		}},
		{tale: tale{
			name:  "an image whose ENTRYPOINT exits",
			story: story{files: dockerfile("FROM {{image}}\nCOPY nonce /\nENTRYPOINT [\"echo\", \"bye\"]\n")},
			want:  want{err: result.EnvironmentStartFailed, says: []string{"ENTRYPOINT"}, detail: []string{"bye"}},
		}},
		{tale: tale{
			name: "user, directory and variables of the image are those of agent and verifier",
			story: story{
				agent: script(`echo "$(id -un) $PWD $COLOR"; cat "$ROLLOUT_TASK_INSTRUCTION" >/logs/agent/seen`),
				files: with(dockerfile("FROM {{image}}\nCOPY nonce /\nENV COLOR=red\nWORKDIR /work\nUSER nobody\n"),
					"tests/test.sh", `[ "$(id -un) $PWD $COLOR" = "nobody /work red" ] && `+reward1),
			},
			want: want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				if got := o.file(t, "command/stdout.txt") + o.file(t, "logs/agent/seen"); got != "nobody /work red\nDo it.\n" {
					t.Errorf("the agent saw %q", got)
				}
			},
		}, users: true},
		{tale: tale{
			name: "force_build builds although the task names an image",
			story: story{
				agent: script("[ -e /nonce ]"),
				files: dockerfile("FROM {{image}}\nCOPY nonce /\n"), toml: "environment.docker_image = \"" + nowhere + "/none/such:1\"\n",
				job: func(job *config.Job) { job.Environment.ForceBuild = true },
			},
			want: want{reward: "1"},
		}},
		{tale: tale{
			name:  "force_build without a Dockerfile uses the image, and says so",
			story: story{agent: script("true"), job: func(job *config.Job) { job.Environment.ForceBuild = true }},
			want:  want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "force_build has no effect", "environment/Dockerfile")
			},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inPlaces(t, realPlaces, func(t *testing.T, p place) {
				switch {
				case tc.strict && p.stands:
					p = strictPlace
				case tc.users && !p.users(t):
					t.Skip("root is the only user in sandboxes of somebody with one user id")
				}
				o := p.run(t, tc.story)
				t.Cleanup(func() { forgetIn(t, p, o) })
				o.check(t, tc.want)
				if tc.verify != nil {
					tc.verify(t, o)
				}
			})
		})
	}
}

// with returns a copy of files with one more.
func with(files map[string]string, name, text string) map[string]string {
	files[name] = text
	return files
}

// counter counts calls of one kind, and remembers the last.
type counter struct {
	op    string
	calls atomic.Int64
	last  atomic.Pointer[call]
}

func (c *counter) before(_ context.Context, made call) error {
	if made.op == c.op {
		c.calls.Add(1)
		c.last.Store(&made)
	}
	return nil
}

// together runs attempts of one task at the same time.
func (sc *scene) together(s story, n int) []outcome {
	t := s.task(sc.t, sc.place)
	outcomes := make([]outcome, n)
	var group sync.WaitGroup
	for i := range outcomes {
		group.Go(func() { outcomes[i] = sc.run(s, t, i+1) })
	}
	group.Wait()
	return outcomes
}

func TestImagesAreMadeOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		t.Run("one build serves all trials of a task", func(t *testing.T) {
			builds := &counter{op: "build"}
			s := story{agent: script("true"), files: dockerfile("FROM {{image}}\nCOPY nonce /nonce\n"), hooks: hooks{before: builds.before}}
			outcomes := p.newScene(t, s).together(s, 4)
			for _, o := range outcomes {
				o.check(t, want{reward: "1"})
				d := o.Trial.Durations
				if d.ImageSec == nil || *d.ImageSec > *d.EnvironmentSetupSec {
					t.Errorf("waited for its image: %+v", d)
				}
			}
			if n := builds.calls.Load(); n != 1 {
				t.Errorf("%d builds", n)
			}
			if last := builds.last.Load(); last.build.NoCache || last.build.Name != "puzzle" {
				t.Errorf("build options: %+v", last.build)
			}
			forgetIn(t, p, outcomes[0])
		})
		t.Run("force_build bypasses the cache, once", func(t *testing.T) {
			builds := &counter{op: "build"}
			s := story{
				agent: script("true"), files: dockerfile("FROM {{image}}\nCOPY nonce /nonce\n"), hooks: hooks{before: builds.before},
				job: func(job *config.Job) { job.Environment.ForceBuild = true },
			}
			outcomes := p.newScene(t, s).together(s, 2)
			for _, o := range outcomes {
				o.check(t, want{reward: "1"})
			}
			if n := builds.calls.Load(); n != 1 || !builds.last.Load().build.NoCache {
				t.Errorf("%d builds, options %+v", n, builds.last.Load().build)
			}
			forgetIn(t, p, outcomes[0])
		})
		t.Run("a failed build is not repeated", func(t *testing.T) {
			builds := &counter{op: "build"}
			s := story{agent: script("true"), files: dockerfile("FROM {{image}}\nCOPY nonce /nonce\nRUN false\n"), hooks: hooks{before: builds.before}}
			sc := p.newScene(t, s)
			outcomes := append(sc.together(s, 2), sc.together(s, 1)...)
			for _, o := range outcomes {
				o.check(t, want{err: result.EnvironmentBuildFailed})
			}
		})
	})
}

func TestTransientImageFailuresAreRetried(t *testing.T) {
	t.Parallel()
	p := fakePlace
	var pulls atomic.Int64
	s := story{agent: script("true"), hooks: hooks{before: func(_ context.Context, c call) error {
		if c.op == "pull" && pulls.Add(1) <= 2 { // the first trial, and its one retry
			return broken(environment.KindPull, true)
		}
		return nil
	}}}
	sc := p.newScene(t, s)
	puzzle := s.task(t, p)
	first := sc.run(s, puzzle, 1)
	first.check(t, want{err: result.EnvironmentImagePullFailed, says: []string{"coughed"}})
	checkRetries(t, first, "pull")
	second := sc.run(s, puzzle, 2)
	second.check(t, want{reward: "1"})
	checkRetries(t, second)
}

func TestWaitingTrialMakesImageAfterCancel(t *testing.T) {
	t.Parallel()
	p := fakePlace
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan struct{})
	var pulls atomic.Int64
	s := story{agent: script("true"), hooks: hooks{before: func(ctx context.Context, c call) error {
		if c.op != "pull" || pulls.Add(1) > 1 {
			return nil
		}
		close(waiting)
		<-ctx.Done()
		return ctx.Err()
	}}}
	sc := p.newScene(t, s)
	puzzle := s.task(t, p)
	var maker, other outcome
	var group sync.WaitGroup
	group.Go(func() { s := s; s.ctx = ctx; maker = sc.run(s, puzzle, 1) })
	<-waiting
	group.Go(func() { other = sc.run(s, puzzle, 2) })
	cancel()
	group.Wait()
	maker.check(t, want{err: result.Cancelled, says: []string{"environment setup"}})
	other.check(t, want{reward: "1"})
}

// checkRetries checks which operations a trial reports as retried.
func checkRetries(t testing.TB, o outcome, operations ...string) {
	t.Helper()
	if len(o.Trial.Retries) != len(operations) {
		t.Errorf("retries: %+v, want %q", o.Trial.Retries, operations)
		return
	}
	for i, r := range o.Trial.Retries {
		if r.Operation != operations[i] || r.Attempt < 1 || r.Message == "" || r.At.IsZero() {
			t.Errorf("retry %d: %+v, want %s", i, r, operations[i])
		}
	}
}

func TestLimits(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		cpus, memory, storage := config.MilliCPUs(1500), config.Bytes(256<<20), config.Bytes(1<<30)
		override := func(job *config.Job) {
			job.Environment.OverrideCPUs, job.Environment.OverrideMemory, job.Environment.OverrideStorage = &cpus, &memory, &storage
		}
		sizes := "environment.cpus = \"500m\"\nenvironment.memory = \"128Mi\"\nenvironment.storage = \"2Gi\"\n"
		for _, tc := range []struct {
			name  string
			job   func(*config.Job)
			want  environment.Limits
			inner string // memory and CPUs as the kernel tells the agent
		}{
			{"the task's sizes reach the environment", nil, environment.Limits{MilliCPUs: 500, Memory: 128 << 20, Storage: 2 << 30}, "134217728 50000\n"},
			{"the job's overrides win", override, environment.Limits{MilliCPUs: 1500, Memory: 256 << 20, Storage: 1 << 30}, "268435456 150000\n"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				creates := &counter{op: "create"}
				s := story{agent: script("true"), toml: sizes, job: tc.job, hooks: hooks{before: creates.before}}
				if p.limits {
					s.agent = script(`cd /sys/fs/cgroup; echo "$(cat memory.max 2>/dev/null || cat memory/memory.limit_in_bytes) $(cut -d' ' -f1 cpu.max 2>/dev/null || cat cpu/cpu.cfs_quota_us)"`)
				}
				o := p.run(t, s)
				o.check(t, want{reward: "1"})
				if got := creates.last.Load().create.Limits; got != tc.want {
					t.Errorf("limits %+v, want %+v", got, tc.want)
				}
				if p.limits && o.file(t, "command/stdout.txt") != tc.inner {
					t.Errorf("inside: %q, want %q", o.file(t, "command/stdout.txt"), tc.inner)
				}
			})
		}
		t.Run("an agent that needs more memory than there may be is ended, or the result says that nothing ends it", func(t *testing.T) {
			t.Parallel()
			if !p.kernel {
				t.Skipf("%s has no memory", p.name)
			}
			o := p.run(t, story{
				agent: script("head -c 300M /dev/zero | tail -c 300M | wc -c; [ ${PIPESTATUS[1]} = 0 ]"), // tail holds it all
				toml:  "environment.memory = \"96Mi\"\n",
			})
			if slices.Contains(o.Trial.Environment.Unenforced, "memory") {
				o.check(t, want{reward: "1"})
				return
			}
			if kind := o.Trial.Error; kind == nil || kind.Type != result.AgentExecutionFailed && kind.Type != result.EnvironmentLost {
				t.Fatalf("300 MB were held within 96 MiB: %+v", kind)
			}
			contains(t, "message", o.Trial.Error.Message, "needed more memory than its limit", "96Mi: raise environment.memory in task.toml")
		})
		t.Run("who runs out of memory is told the limit and who sets it", func(t *testing.T) {
			t.Parallel()
			if !p.kernel {
				t.Skipf("%s has no memory", p.name)
			}
			const hungry = "head -c 300M /dev/zero | tail -c 300M | wc -c; [ ${PIPESTATUS[1]} = 0 ]"
			limit := config.Bytes(96 << 20)
			s := func(s story) story {
				s.job = func(job *config.Job) { job.Environment.OverrideMemory = &limit }
				return s
			}
			for who, s := range map[result.ErrorType]story{
				result.AgentInstallFailed: s(story{agent: agent.Agent{Name: "scripted", Install: hungry, Execute: "true"}}),
				result.VerifierFailed:     s(story{agent: script("true"), files: map[string]string{"tests/test.sh": hungry}}),
			} {
				o := p.run(t, s)
				if slices.Contains(o.Trial.Environment.Unenforced, "memory") {
					continue
				}
				o.check(t, want{err: who, says: []string{"exit code 1, and", "killed because the environment needed more memory than its limit of 96Mi: raise environment.override_memory in the job"}})
			}
		})
		t.Run("an environment that memory ends says so", func(t *testing.T) {
			t.Parallel()
			if !p.kernel {
				t.Skipf("%s has no memory", p.name)
			}
			const limit = "environment.memory = \"96Mi\"\n"
			if o := p.run(t, story{toml: limit, agent: script("true")}); slices.Contains(o.Trial.Environment.Unenforced, "memory") {
				t.Skip("this user may not limit memory")
			}
			o := p.run(t, story{
				toml:  limit,
				files: entering("x=$(head -c 300000000 /dev/zero | tr '\\0' x); exit 1\n"),
				agent: script("true"),
			})
			t.Cleanup(func() { forgetIn(t, p, o) })
			o.check(t, want{err: result.EnvironmentStartFailed, says: []string{"it needed more memory than its limit (96Mi: raise environment.memory in task.toml)"}})
		})
		t.Run("what no machine has is refused", func(t *testing.T) {
			t.Parallel()
			if !p.kernel {
				t.Skipf("%s has any number of processors", p.name)
			}
			o := p.run(t, story{agent: script("true"), toml: "environment.cpus = \"100000\"\n"})
			o.check(t, want{err: result.EnvironmentResourceAllocationFailed, says: []string{"cpus"}})
		})
	})
}
