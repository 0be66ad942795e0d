package trial_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
)

// files returns the paths of all files and directories in the trial's directory, with the contents
// of files.
func (o outcome) files(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(o.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(o.dir, path)
		if err != nil {
			return err
		}
		found[name] = ""
		if entry.Type().IsRegular() {
			data, err := os.ReadFile(path)
			found[name] = string(data)
			return err
		}
		if !entry.IsDir() {
			t.Errorf("%s is neither a file nor a directory", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (o outcome) omitted(path string) string {
	for _, om := range o.Trial.Omitted {
		if om.Path == path {
			return om.Reason
		}
	}
	return ""
}

func TestOutputIsCapped(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		const flood = "x=$(printf %0200000d 0); x=${x//0/x}; for i in 1 2 3 4 5 6 7 8; do printf %s $x; done; "
		o := p.run(t, story{
			agent: agent.Agent{
				Install: "printf %01000d 7", // the limit itself
				Execute: flood + "echo end; " + flood + " echo short >&2; echo done >/logs/agent/done.txt",
			},
			job: func(job *config.Job) { job.MaxStreamSize = 1000 },
		})
		o.check(t, want{reward: "1"})
		if got := o.file(t, "logs/agent/done.txt"); got != "done\n" {
			t.Errorf("the agent was held up: %q", got)
		}
		const marker = "\n[rollout: 3199004 bytes are left out here (max_stream_size is 1000)]\n"
		if got := o.file(t, "command/stdout.txt"); got != strings.Repeat("x", 500)+marker+strings.Repeat("x", 500) {
			t.Errorf("stdout.txt has %d bytes and ends with %q", len(got), got[max(0, len(got)-200):])
		}
		contains(t, "omitted", o.omitted("command/stdout.txt"), "3199004 bytes between the first 500 and the last 500")
		if got := o.file(t, "command/stderr.txt"); got != "short\n" {
			t.Errorf("stderr.txt: %q", got)
		}
		if got := o.file(t, "setup/stdout.txt"); len(got) != 1000 || len(o.Trial.Omitted) != 1 {
			t.Errorf("what is just as long as the limit is whole: %d bytes, omitted %+v", len(got), o.Trial.Omitted)
		}
	})
}

func TestOutputIsKeptByteForByte(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		o := p.run(t, story{agent: script(`printf '\000\377\376\033[31mred\r\n\303'`)})
		o.check(t, want{reward: "1"})
		if got := o.file(t, "command/stdout.txt"); got != "\x00\xff\xfe\x1b[31mred\r\n\xc3" {
			t.Errorf("stdout.txt: %q", got)
		}
	})
}

func TestUnsafeNamesAreRenamedAndListed(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		o := p.run(t, story{agent: script(`cd /logs/agent
mkdir 'a:b' .git
echo 1 >'a:b/x'; echo 2 >.git/config; echo 3 >$'new\nline'; echo 4 >'is it?*<>|"'; echo 5 >plain.txt; echo 6 >'Plain.txt'; echo 7 >'dot.'
`)})
		o.check(t, want{reward: "1"})
		files := o.files(t)
		for name, text := range map[string]string{
			"logs/agent/a-b/x": "1\n", "logs/agent/-git/config": "2\n", "logs/agent/new-line": "3\n",
			"logs/agent/is it------": "4\n", "logs/agent/dot": "7\n",
		} {
			if files[name] != text {
				t.Errorf("%s: %q, want %q", name, files[name], text)
			}
		}
		// The same but for case: one of them has another name.
		if files["logs/agent/plain.txt"]+files["logs/agent/Plain.txt"]+files["logs/agent/plain.txt~2"]+files["logs/agent/Plain.txt~2"] == "" ||
			!slices.ContainsFunc(o.Trial.Renamed, func(r result.Rename) bool { return strings.HasSuffix(r.To, "~2") }) {
			t.Errorf("%v, renamed %+v", files, o.Trial.Renamed)
		}
		renamed := map[string]string{}
		for _, r := range o.Trial.Renamed {
			renamed[r.From] = r.To
		}
		for from, to := range map[string]string{
			"logs/agent/a:b": "logs/agent/a-b", "logs/agent/.git": "logs/agent/-git", "logs/agent/new\nline": "logs/agent/new-line",
			"logs/agent/is it?*<>|\"": "logs/agent/is it------", "logs/agent/dot.": "logs/agent/dot",
		} {
			if renamed[from] != to {
				t.Errorf("%q became %q, want %q", from, renamed[from], to)
			}
		}
		for name := range files {
			if strings.ContainsAny(name, "\":<>|*?\r\n\\") || strings.Contains(name, "/.") {
				t.Errorf("the artifact upload refuses %q", name)
			}
		}
	})
}

func TestRewardFilesKeepTheirNames(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		o := p.run(t, story{
			files: map[string]string{"tests/test.sh": "echo '{}' >/logs/verifier/ctrf.json; echo 1 >/logs/verifier/reward.txt\n"},
			agent: script(`cd /logs; for d in VERIFIER Verifier verifier. Agent; do mkdir "$d"; echo planted >"$d/reward.txt"; echo planted >"$d/ctrf.json"; done
ln -s verifier VERIfier; echo mine >agent/file`),
		})
		o.check(t, want{reward: "1"})
		files := o.files(t)
		for name, text := range map[string]string{
			"logs/verifier/ctrf.json": "{}\n", "logs/verifier/reward.txt": "1\n", "logs/verifier/stdout.txt": "", "logs/agent/file": "mine\n",
		} {
			if got, ok := files[name]; !ok || got != text {
				t.Errorf("%s: %q, want %q", name, got, text)
			}
		}
		folded := map[string]string{}
		for name := range files {
			if other := folded[strings.ToLower(name)]; other != "" {
				t.Errorf("%s and %s are one file where case does not count", name, other)
			}
			folded[strings.ToLower(name)] = name
		}
	})
}

func TestTooLongRewardFileIsInvalid(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		const long = "printf '%70000s' ''; "
		for name, verify := range map[string]string{
			"reward.txt":  "{ echo 1; " + long + "echo 0; } >/logs/verifier/reward.txt",
			"reward.json": `{ echo '{"reward": 1}'; ` + long + "} >/logs/verifier/reward.json",
		} {
			o := p.run(t, story{agent: agent.Agent{Name: agent.Nop}, files: map[string]string{"tests/test.sh": verify}})
			o.check(t, want{err: result.VerifierRewardInvalid, says: []string{"/logs/verifier/" + name + " is larger than 64 KiB"}})
		}
	})
}

func TestUnusualRewardsAreWarnings(t *testing.T) {
	t.Parallel()
	for reward, warned := range map[string]bool{"0": false, "0.5": false, "1": false, "-0.1": true, "1.5": true, "70": true} {
		o := fakePlace.run(t, story{agent: agent.Agent{Name: agent.Nop}, files: map[string]string{"tests/test.sh": "echo " + reward + " >/logs/verifier/reward.txt"}})
		o.check(t, want{reward: reward})
		if got := strings.Contains(strings.Join(o.Trial.Warnings, "\n"), "is not between 0 and 1"); got != warned {
			t.Errorf("%s: warned %v: %v", reward, got, o.Trial.Warnings)
		}
	}
}

func TestSpecialFilesInLogsAreOmitted(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		pipes := ""
		if p.kernel {
			pipes = "mkfifo pipe; mknod device c 1 3; ln file hard;"
		}
		o := p.run(t, story{agent: script(`cd /logs/agent; echo kept >file
for i in 1 2 3 4 5 6 7 8 9; do for j in 1 2 3 4 5 6 7 8 9; do for k in 1 2 3; do ln -s /etc/passwd link$i$j$k; done; done; done
ln -s / root; ln -s .. up; ` + pipes)})
		o.check(t, want{reward: "1"})
		files := o.files(t) // complains about anything but files and directories
		for name := range files {
			if strings.HasPrefix(name, "logs/agent/") && name != "logs/agent/file" && name != "logs/agent/hard" {
				t.Errorf("%s was copied", name)
			}
		}
		// One file with two names: an archive may have it under the second name as a mere link.
		if text := files["logs/agent/file"] + files["logs/agent/hard"]; text != "kept\n" && text != "kept\nkept\n" {
			t.Errorf("the file is lost: %q", text)
		}
		if n := len(o.Trial.Omitted); n < 10 || n > 200 {
			t.Errorf("%d omissions are listed", n)
		}
	})
}

func TestRewardIsReadFromTooLargeLogs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		story story
	}{
		{"a file larger than the limit", story{agent: script("truncate -s 2G /logs/agent/big; echo small >/logs/agent/a")}},
		{"a verifier's file that is larger than the limit", story{
			agent: script("echo small >/logs/agent/a"), files: tests("truncate -s 2G /logs/verifier/big\n" + reward1),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inPlaces(t, realPlaces, func(t *testing.T, p place) { // the file is sparse, which needs a kernel
				o := p.run(t, tc.story)
				o.check(t, want{reward: "1"})
				contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "/logs could not be copied whole", "larger than the limit")
				if o.file(t, "logs/agent/a") != "small\n" {
					t.Error("what came before is lost")
				}
			})
		})
	}
}

func TestUnreadableRewardIsNotMissing(t *testing.T) {
	t.Parallel()
	o := fakePlace.run(t, story{agent: script("true"), hooks: fails("copyFrom", broken("copy", false))})
	o.check(t, want{err: result.InternalError, says: []string{"during log collection", "coughed"}})
	o = fakePlace.run(t, story{agent: script("true"), hooks: fails("copyFrom", broken("lost", false))})
	o.check(t, want{err: result.EnvironmentLost, says: []string{"during log collection"}})
}

func TestFullDiskDoesNotStopAgent(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skipf("needs a disk that is always full: %v", err)
	}
	sc := fakePlace.newScene(t, story{})
	s := story{agent: script("echo out; echo done >/logs/agent/done.txt")}
	sc.prepare = func(dir string) {
		if err := os.Mkdir(filepath.Join(dir, "command"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/dev/full", filepath.Join(dir, "command", "stdout.txt")); err != nil {
			t.Fatal(err)
		}
	}
	o := sc.run(s, s.task(t, fakePlace), 1)
	o.check(t, want{reward: "1"})
	contains(t, "omitted", o.omitted("command/stdout.txt"), "could not be written whole", "no space left")
	if !o.has("logs/agent/done.txt") {
		t.Error("the agent was stopped")
	}
}

func TestUnwritableTrialDirectory(t *testing.T) {
	t.Parallel()
	sc := fakePlace.newScene(t, story{})
	s := story{agent: script("true")}
	sc.prepare = func(dir string) {
		if err := os.WriteFile(filepath.Join(dir, "command"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := sc.run(s, s.task(t, fakePlace), 1)
	o.check(t, want{err: result.InternalError, says: []string{"agent execution", "open a file for the output", "not a directory"}})
}

func TestCapturedOutputIsNotReplaced(t *testing.T) {
	t.Parallel()
	o := fakePlace.run(t, story{
		agent: script("true"),
		files: tests("echo captured; echo mine >/logs/verifier/stdout.txt\n" + reward1),
	})
	o.check(t, want{reward: "1"})
	if got := o.file(t, "logs/verifier/stdout.txt"); got != "captured\n" {
		t.Errorf("the captured output was replaced: %q", got)
	}
	if o.omitted("logs/verifier/stdout.txt") == "" {
		t.Errorf("the file of the same name is not listed: %+v", o.Trial.Omitted)
	}
}

func TestAgentReportsItsCost(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		cost := func(text string) agent.Agent {
			return agent.Agent{Execute: "echo done > /app/done; printf '" + text + "' > /logs/agent/cost_usd.txt"}
		}
		if o := p.run(t, story{agent: cost("0.25")}); o.Trial.Cost != result.Dollars(0.25) || o.Trial.Costs.Model != result.Dollars(0.25) {
			t.Errorf("the costs are %+v", o.Trial.Costs)
		}
		o := p.run(t, story{agent: cost("cheap")})
		if o.Trial.Cost != (result.USD{}) || o.Trial.Reward == nil {
			t.Errorf("the costs are %+v, the reward is %v", o.Trial.Costs, o.Trial.Reward)
		}
		contains(t, "the warnings", strings.Join(o.Trial.Warnings, "\n"), "cost_usd.txt", `"cheap"`)
	})
}
