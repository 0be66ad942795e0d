package trial_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
)

func TestArtifacts(t *testing.T) {
	const key = "sk-live-ABCdef0123456789"
	const list = `artifacts = ["/tmp/out", "/tmp/one.txt", "/tmp/missing", {source = "/tmp/two.txt", destination = "named/2"}, {source = "/tmp/same"},
	{source = "/tmp/tree", destination = "tree", exclude = ["*.log", "deep/skip", "node_modules"]}]
`
	const make = `mkdir -p /tmp/out /tmp/same /tmp/tree/deep/skip /tmp/tree/node_modules/x /tmp/tree/a
echo "the $KEY" >"/tmp/out/$KEY"; ln -s /etc/passwd /tmp/out/link; echo 1 >"/tmp/out/a:b"; echo one >/tmp/one.txt; echo two >/tmp/two.txt; echo same >/tmp/same/same
for f in kept.txt a/b.log deep/kept deep/skip/x node_modules/x/y; do echo $f >/tmp/tree/$f; done
`
	everywhere(t, func(t *testing.T, p place) {
		o := p.run(t, story{
			toml: list, secrets: []string{key}, env: map[string]string{"KEY": key}, agent: script(make + "exit 3"),
			job:   verifyAnyway,
			files: tests("rm -rf /tmp/out /tmp/tree; " + reward1),
		})
		o.check(t, want{err: result.AgentExecutionFailed, reward: "1"})
		var kept []string
		for name, text := range o.files(t) {
			if strings.Contains(name+text, key) {
				t.Errorf("the key is in %q: %q", name, text)
			}
			if strings.HasPrefix(name, "artifacts/") && text != "" {
				kept = append(kept, name+": "+strings.TrimSpace(text))
			}
			if strings.HasPrefix(name, "incoming") {
				t.Errorf("%s is left behind", name)
			}
		}
		slices.Sort(kept)
		want := []string{
			"artifacts/named/2: two", "artifacts/tmp/one.txt: one", "artifacts/tmp/out/---: the ***", "artifacts/tmp/out/a-b: 1", "artifacts/tmp/same/same: same",
			"artifacts/tree/deep/kept: deep/kept", "artifacts/tree/kept.txt: kept.txt",
		}
		if !slices.Equal(kept, want) {
			t.Errorf("kept %q\nwant %q", kept, want)
		}
		if got, want := fmt.Sprint(sources(o)), "[/tmp/out artifacts/tmp/out 2 /tmp/one.txt artifacts/tmp/one.txt 1 /tmp/two.txt artifacts/named/2 1 /tmp/same artifacts/tmp/same 1 /tmp/tree artifacts/tree 4]"; got != want {
			t.Errorf("the result lists %s\nwant %s", got, want)
		}
		if !slices.Contains(o.Trial.Warnings, "the artifact /tmp/missing is not there") || len(o.Trial.Warnings) != 1 {
			t.Errorf("warnings: %q", o.Trial.Warnings)
		}
		if reason := o.omitted("artifacts/tmp/out/link"); !strings.Contains(reason, "symbolic link") {
			t.Errorf("the link: %q in %v", reason, o.Trial.Omitted)
		}
		if !slices.ContainsFunc(o.Trial.Renamed, func(r result.Rename) bool { return r.From == "/tmp/out/a:b" && r.To == "artifacts/tmp/out/a-b" }) {
			t.Errorf("renamed: %v", o.Trial.Renamed)
		}
	})
}

// sources returns the artifacts in the result, without sizes.
func sources(o outcome) []string {
	var out []string
	for _, a := range o.Trial.Artifacts {
		out = append(out, a.Source, a.Path, fmt.Sprint(a.Files))
	}
	return out
}

func TestUncopyableArtifactsAreWarnings(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		t.Run("what is no file is left where it is", func(t *testing.T) {
			t.Parallel()
			if !p.kernel {
				t.Skipf("%s has no named pipes", p.name)
			}
			o := p.run(t, story{toml: "artifacts = [\"/tmp/odd\", \"/tmp/pipe\"]\n", agent: script("mkdir /tmp/odd; mkfifo /tmp/odd/pipe /tmp/pipe; echo x >/tmp/odd/x")})
			o.check(t, want{reward: "1"})
			if !strings.Contains(o.omitted("artifacts/tmp/odd/pipe"), "pipe") || !o.has("artifacts/tmp/odd/x") || o.has("artifacts/tmp/odd/pipe") || o.has("artifacts/tmp/pipe") || o.omitted("artifacts/tmp/pipe") != "a named pipe" {
				t.Errorf("omitted %v, artifacts %v", o.Trial.Omitted, o.Trial.Artifacts)
			}
		})
		t.Run("none are kept of an installation that failed", func(t *testing.T) {
			t.Parallel()
			o := p.run(t, story{toml: "artifacts = [\"/etc/passwd\"]\n", agent: agent.Agent{Install: "exit 1", Execute: "true"}})
			o.check(t, want{err: result.AgentInstallFailed})
			if o.has("artifacts") || len(o.Trial.Artifacts) > 0 {
				t.Errorf("kept: %v", o.Trial.Artifacts)
			}
		})
	})
	t.Run("too many files are cut, and said", func(t *testing.T) {
		t.Parallel()
		o := fakePlace.run(t, story{
			toml:  "artifacts = [\"/tmp/many\", \"/etc/passwd\"]\n",
			agent: script("mkdir -p /tmp/many; cd /tmp/many; for ((i = 0; i < 50001; i++)); do : >$i; done"),
		})
		o.check(t, want{reward: "1"})
		if len(o.Trial.Warnings) != 2 || !strings.Contains(o.Trial.Warnings[0], "/tmp/many could not be copied whole") || !strings.Contains(o.Trial.Warnings[1], "after /tmp/many are not copied") {
			t.Errorf("warnings: %q", o.Trial.Warnings)
		}
		if a := o.Trial.Artifacts; len(a) != 1 || a[0].Files != 50_000 {
			t.Errorf("artifacts: %+v", a)
		}
	})
	t.Run("two destinations that are one on disk", func(t *testing.T) {
		t.Parallel()
		o := fakePlace.run(t, story{
			toml:  "artifacts = [{source = \"/tmp/a\", destination = \"x:y\"}, {source = \"/tmp/b\", destination = \"x-y\"}]\n",
			agent: script("echo a >/tmp/a; echo b >/tmp/b"),
		})
		o.check(t, want{reward: "1"})
		if got := o.file(t, "artifacts/x-y"); got != "a\n" || len(o.Trial.Warnings) != 1 || !strings.Contains(o.Trial.Warnings[0], "is there already") {
			t.Errorf("%q, warnings: %q", got, o.Trial.Warnings)
		}
	})
}

// TestArtifactsOfTheJob: the job's artifacts are copied, too, unless they are among the task's, and
// each has a separate place.
func TestArtifactsOfTheJob(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		o := p.run(t, story{
			toml:  `artifacts = ["/tmp/out", {source = "/tmp/a", destination = "tmp/b"}]` + "\n",
			agent: script("mkdir -p /tmp/out/in; echo 1 >/tmp/out/in/1; echo 2 >/tmp/a; echo 3 >/tmp/b; echo 4 >/tmp/c"),
			job:   func(j *config.Job) { j.Artifacts = []string{"/tmp/out/in", "/tmp/b", "/tmp/c", "/tmp/none"} },
			files: tests(reward1),
		})
		o.check(t, want{reward: "1"})
		const want = "[/tmp/out artifacts/tmp/out 2 /tmp/a artifacts/tmp/b 1 /tmp/b artifacts/job/tmp/b 1 /tmp/c artifacts/tmp/c 1]"
		if got := fmt.Sprint(sources(o)); got != want {
			t.Errorf("the result lists %s\nwant %s", got, want)
		}
		if text := o.files(t)["artifacts/job/tmp/b"]; text != "3\n" {
			t.Errorf("/tmp/b is %q", text)
		}
		if fmt.Sprint(o.Trial.Warnings) != "[the artifact /tmp/none is not there]" {
			t.Errorf("warnings: %q", o.Trial.Warnings)
		}
	})
}
