package judging

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// bench returns a bench whose attempts end as attempts say, one after the other, and leave a file.
func bench(t *testing.T, most int, attempts ...Attempt) (b *Bench, ran *int) {
	ran = new(int)
	b = &Bench{Dir: t.TempDir(), Attempts: most, Places: make(chan struct{}, 1), Now: time.Now, Digest: func(judge.Spec) string { return "sha256:1" }}
	b.Attempt = func(_ context.Context, j Judge, _ Material, below string) Attempt {
		dir := filepath.Join(b.Dir, result.JudgesDir, below)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		*ran++
		if err := os.WriteFile(filepath.Join(dir, "nth"), fmt.Append(nil, *ran), 0o644); err != nil {
			t.Fatal(err)
		}
		return attempts[*ran-1]
	}
	return b, ran
}

func failed(again bool) Attempt {
	return Attempt{Failed: failure.Newf(result.JudgeFailed, "no luck"), Again: again, Trial: &result.Trial{Costs: result.Costs{Model: result.Dollars(1), Environment: result.Dollars(2)}}}
}

func good(score float64) Attempt {
	return Attempt{Verdict: judge.Verdict{Score: score, JSON: []byte("{}")}, Trial: &result.Trial{Costs: result.Costs{Model: result.Dollars(4)}}}
}

func quality(t *testing.T, when string) Judge {
	t.Helper()
	j, problems := judge.Compile(judge.Spec{Name: "quality", Agent: judge.Call, Model: "m", Prompt: "x", When: when})
	if j == nil || len(problems) > 0 {
		t.Fatal(problems)
	}
	return Judge{Judge: j}
}

func TestJudgesTryUntilThereIsAVerdict(t *testing.T) {
	for _, c := range []struct {
		name     string
		most     int
		attempts []Attempt
		ran      int
		score    bool
		cost     float64
		dirs     string
	}{
		{"a verdict at once", 2, []Attempt{good(1)}, 1, true, 4, "quality"},
		{"the second one counts, and both cost", 2, []Attempt{failed(true), good(1)}, 2, true, 5, "quality quality.failed-1"},
		{"there is a limit", 2, []Attempt{failed(true), failed(true), good(1)}, 2, false, 2, "quality quality.failed-1"},
		{"another attempt would not help", 2, []Attempt{failed(false), good(1)}, 1, false, 1, "quality"},
		{"it did not begin", 2, []Attempt{{Failed: failure.Newf(result.JudgeFailed, "no prompt")}}, 1, false, 0, "quality"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, ran := bench(t, c.most, c.attempts...)
			out := b.JudgeApart(t.Context(), quality(t, ""), nil, judge.Facts{})
			if *ran != c.ran || out.Run.Attempts != c.ran || (out.Run.Score != nil) != c.score || (out.Run.Error == nil) != c.score || out.Run.Cost.Amount() != c.cost || len(out.retries) != c.ran-1 {
				t.Errorf("%d attempts gave %+v", *ran, out)
			}
			var dirs []string
			entries, err := os.ReadDir(filepath.Join(b.Dir, result.JudgesDir))
			for _, e := range entries {
				dirs = append(dirs, e.Name())
			}
			if got := strings.Join(dirs, " "); err != nil || got != c.dirs {
				t.Errorf("there are %s, %v", got, err)
			}
			if r, err := readJudged(filepath.Join(b.Dir, result.JudgesDir, "quality")); err != nil || (r.Run.Score != nil) != c.score || r.Run.Cost.Amount() != c.cost {
				t.Errorf("its record is %+v, %v", r, err)
			}
			if len(b.Places) != 0 {
				t.Error("its place is not free again")
			}
		})
	}
}

func TestABenchContinuesTheAttemptsOfAnEarlierExecution(t *testing.T) {
	first, _ := bench(t, 1, failed(true))
	first.Judge(t.Context(), quality(t, ""), nil, judge.Facts{}, nil)
	b, _ := bench(t, 1, good(1))
	b.Dir, b.Continues = first.Dir, true
	out := b.Judge(t.Context(), quality(t, ""), nil, judge.Facts{}, nil)
	if out.Run.Attempts != 2 || out.Run.Cost.Amount() != 5 || out.env.Amount() != 2 || out.Run.Score == nil {
		t.Errorf("the second execution gave %+v", out)
	}
}

func TestJudgesThatDoNotRunSayWhy(t *testing.T) {
	tests := 1.0
	b, ran := bench(t, 1)
	if out := b.Judge(t.Context(), quality(t, "tests < 1"), nil, judge.Facts{Tests: &tests}, nil); !out.Run.Skipped || out.Run.Error != nil {
		t.Errorf("its condition is not met: %+v", out)
	}
	if out := b.Judge(t.Context(), quality(t, ""), nil, judge.Facts{}, fmt.Errorf("processes remain")); out.Run.Error == nil || !strings.Contains(out.Run.Error.Message, "the judge quality cannot run: processes remain") {
		t.Errorf("it is blocked: %+v", out)
	}
	if *ran != 0 {
		t.Errorf("%d attempts ran", *ran)
	}
}

func TestScoresOfJudgesBecomeTheReward(t *testing.T) {
	quality, style := quality(t, ""), quality(t, "")
	style.Judge = new(judge.Judge)
	*style.Judge = *quality.Judge
	style.Spec.Name, style.Spec.OnError = "style", judge.Ignore
	half := 0.5
	for name, c := range map[string]struct {
		all      []Outcome
		reward   *float64
		failed   bool
		warnings []string
	}{
		"all have scores": {[]Outcome{{Run: result.AgentRun{Name: "quality", Score: &half}}, {Run: result.AgentRun{Name: "style", Score: &half}}}, &half, false, []string{"quality.x"}},
		"one may fail": {
			[]Outcome{{Run: result.AgentRun{Name: "quality", Score: &half}}, {Run: result.AgentRun{Name: "style"}, failed: failure.Newf(result.JudgeTimeout, "slow")}},
			&half, false, []string{"judge_timeout: slow; its score is null (on_error: ignore)", "quality.x"},
		},
		"one may not": {
			[]Outcome{{Run: result.AgentRun{Name: "quality"}, failed: failure.Newf(result.JudgeTimeout, "slow")}, {Run: result.AgentRun{Name: "style", Score: &half}}},
			nil, true, []string{"quality.x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := Subject{Judges: []Judge{quality, style}}
			var got result.Trial
			var warnings []string
			err := s.Score(&got, c.all, &half, map[string]float64{"quality.x": 1, "speed": 2}, func(format string, args ...any) {
				warnings = append(warnings, fmt.Sprintf(format, args...))
			})
			if (err != nil) != c.failed || (got.Reward == nil) != (c.reward == nil) || len(got.Scores) != 2 || len(got.Agents) != 2 || got.Rewards["speed"] != 2 {
				t.Errorf("%v, %+v", err, got)
			}
			if !slices.EqualFunc(warnings, c.warnings, strings.Contains) {
				t.Errorf("warnings: %q", warnings)
			}
		})
	}
}

func TestGitRunsNoProgramsThatARepositoryNames(t *testing.T) {
	var asked string
	env, err := GitVariables(func(command string, env map[string]string, stdout io.Writer) error {
		asked = command
		if env["GIT_CONFIG_COUNT"] == "" {
			t.Error("the settings with fixed names are not off while the others are listed")
		}
		_, err := io.WriteString(stdout, "filter.lfs.clean\x00diff.own.textconv\x00")
		return err
	})
	if err != nil || !strings.Contains(asked, "git config") {
		t.Fatalf("%v after %q", err, asked)
	}
	off := map[string]string{}
	for name, value := range env {
		if n, ok := strings.CutPrefix(name, "GIT_CONFIG_KEY_"); ok {
			off[value] = env["GIT_CONFIG_VALUE_"+n]
		}
	}
	for name, want := range map[string]string{"filter.lfs.clean": "", "filter.lfs.required": "false", "diff.own.textconv": "cat", "core.hooksPath": "/dev/null"} {
		if got, ok := off[name]; !ok || got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if _, err := GitVariables(func(_ string, _ map[string]string, stdout io.Writer) error {
		_, err := io.WriteString(stdout, strings.Repeat("filter.x.clean\x00", maxGitNamed))
		return err
	}); err == nil {
		t.Error("a repository with too many programs is taken")
	}
}
