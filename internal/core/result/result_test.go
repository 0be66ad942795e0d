package result

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestSlug(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"a safe name stays", "adaptive-rejection-sampler", "adaptive-rejection-sampler"},
		{"spaces and other scripts stay", "Claude Code 日本", "Claude Code 日本"},
		{"a slash cannot make a directory", "org/name", "org-name"},
		{"a backslash cannot either", `a\b`, "a-b"},
		{"what artifact upload refuses is replaced", `a"b:c<d>e|f*g?h`, "a-b-c-d-e-f-g-h"},
		{"line ends are replaced", "a\r\nb", "a--b"},
		{"a bidi control is replaced", "a\u202eb", "a-b"},
		{"the parent directory is no name", "..", "-"},
		{"a hidden name is shown", ".git", "-git"},
		{"trailing dots and spaces go", "name. ", "name"},
		{"an empty name becomes one", "", "-"},
		{"broken UTF-8 is replaced", "a\xffb", "a-b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Slug(tc.in); got != tc.want {
				t.Errorf("Slug(%q) = %q, want %q", tc.in, got, tc.want)
			}
			if got := Slug(tc.want); got != tc.want {
				t.Errorf("Slug(%q) = %q: a slug must stay as it is", tc.want, got)
			}
		})
	}
	t.Run("long names are cut between runes and stay apart", func(t *testing.T) {
		a, b := Slug(strings.Repeat("é", 150)+"a"), Slug(strings.Repeat("é", 150)+"b")
		if a == b || len(a) > maxSlug || !utf8.ValidString(a) {
			t.Errorf("got %q and %q", a, b)
		}
	})
}

func FuzzSlug(f *testing.F) {
	f.Add("../../etc/passwd")
	f.Fuzz(func(t *testing.T, name string) {
		s := Slug(name)
		if s == "" || s == "." || s == ".." || len(s) > maxSlug || strings.ContainsAny(s, "/\\\x00\r\n\":<>|*?") || s[0] == '.' {
			t.Errorf("Slug(%q) = %q", name, s)
		}
		if Slug(s) != s {
			t.Errorf("Slug(%q) = %q, which is not stable", name, s)
		}
	})
}

func key(agent, task string, attempt int) Key {
	return Key{Agent: agent, Dataset: "d", Task: task, Attempt: attempt}
}

func rewarded(k Key, reward float64) Trial { return Trial{Key: k, Reward: &reward, Cost: Dollars(0.5)} }

func failed(k Key, kind ErrorType) Trial {
	return Trial{Key: k, Error: &Error{Type: kind}, Cost: Dollars(0.25)}
}

func TestSummarize(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a1, a2, a3, b1, b2 := key("a", "t", 1), key("a", "t", 2), key("a", "u", 1), key("b", "t", 1), key("b", "u", 1)
	plan := Plan{JobName: "j", StartedAt: start, Metrics: []string{"sum", "min", "max", "mean"}, Trials: KeysOf(b1, b2, a1, a2, a3)}
	late := rewarded(a2, 0.5)
	late.Timestamps.EndedAt = start.Add(90 * time.Second)
	torn := failed(b1, EnvironmentTeardownFailed)
	one := 1.0
	torn.Reward = &one
	trials := []Trial{rewarded(a1, 1), late, failed(a3, VerifierFailed), torn, rewarded(key("x", "unplanned", 1), 1), rewarded(a1, 0)}
	before := slices.Clone(trials)

	job := Summarize(plan, trials)

	if !reflect.DeepEqual(trials, before) {
		t.Error("the trials were changed")
	}
	if job.TotalTrials != 5 || job.CompletedTrials != 3 || job.FailedTrials != 1 || job.SkippedTrials != 1 {
		t.Errorf("counts are %+v", job.Summary)
	}
	if want := 2.0 / 3; job.PassRate != want || job.PassRateAll != 2.0/5 {
		t.Errorf("pass rates are %v and %v", job.PassRate, job.PassRateAll)
	}
	if want := 2.5 / 3; job.MeanReward != want || job.MeanRewardAll != 2.5/5 {
		t.Errorf("mean rewards are %v and %v", job.MeanReward, job.MeanRewardAll)
	}
	var metrics []float64
	for _, m := range job.Metrics {
		metrics = append(metrics, *m.Value)
	}
	if want := []float64{2.5, 0.5, 1, 2.5 / 3}; !slices.Equal(metrics, want) {
		t.Errorf("metrics are %v, want %v", metrics, want)
	}
	if !job.Cancelled || !slices.Equal(job.Skipped, []Key{b2}) {
		t.Errorf("cancelled %v, skipped %v", job.Cancelled, job.Skipped)
	}
	if job.TotalDurationSec != 90 || !job.EndedAt.Equal(late.Timestamps.EndedAt) {
		t.Errorf("it took %v s and ended at %v", job.TotalDurationSec, job.EndedAt)
	}
	var order []Key
	for _, r := range job.Results.All() {
		order = append(order, r.Key)
	}
	if want := []Key{a1, a2, a3, b1}; !slices.Equal(order, want) {
		t.Errorf("results are %v, want %v", order, want)
	}
	if job.Agents["a"].CompletedTrials != 2 || job.Agents["b"].SkippedTrials != 1 || len(job.Agents) != 2 {
		t.Errorf("agents are %+v", job.Agents)
	}
	if job.Errors[VerifierFailed] != 1 || job.Errors[EnvironmentTeardownFailed] != 1 {
		t.Errorf("errors are %v", job.Errors)
	}

	t.Run("the order of the trials does not matter", func(t *testing.T) {
		shuffled := slices.Clone(trials[:5])
		slices.Reverse(shuffled)
		if again := Summarize(plan, shuffled); !reflect.DeepEqual(again, job) {
			t.Errorf("got %+v, want %+v", again, job)
		}
	})
	t.Run("groups add up to the job", func(t *testing.T) {
		total := 0
		for _, g := range Groups(plan, trials) {
			total += g.TotalTrials
		}
		if total != job.TotalTrials {
			t.Errorf("groups hold %d trials", total)
		}
	})
	t.Run("a job without results has rates of 0 and metrics of null", func(t *testing.T) {
		empty := Summarize(plan, nil)
		if empty.PassRate != 0 || empty.Metrics[0].Value != nil || empty.TotalDurationSec != 0 {
			t.Errorf("got %+v", empty)
		}
	})
}

func TestHugeRewardsStayNumbers(t *testing.T) {
	plan := Plan{JobName: "j", Metrics: []string{"sum", "mean"}, Trials: KeysOf(key("a", "t", 1), key("a", "t", 2), key("a", "t", 3), key("a", "t", 4))}
	for _, rewards := range [][4]float64{{1e308, 1e308, 1e308, 1}, {1e308, 1e308, -1e308, -1e308}, {-1e308, -1e308, -1e308, 0}} {
		var trials []Trial
		for i, reward := range rewards {
			trials = append(trials, rewarded(plan.Trials.At(i), reward))
		}
		if _, err := Marshal(Summarize(plan, trials)); err != nil {
			t.Errorf("%g: %v", rewards, err)
		}
	}
}

func TestHugeCostsStayNumbers(t *testing.T) {
	plan := Plan{JobName: "j", Trials: KeysOf(key("a", "t", 1), key("a", "t", 2))}
	var trials []Trial
	for _, k := range plan.Trials.All() {
		trial := rewarded(k, 1)
		trial.Costs = Costs{Environment: Dollars(1e308), Model: Dollars(1e308), Judges: Dollars(1e308)}
		trial.Cost = Dollars(1e308)
		trials = append(trials, trial)
	}
	if _, err := Marshal(Summarize(plan, trials)); err != nil {
		t.Error(err)
	}
}

func TestSecondsAreShortDecimals(t *testing.T) {
	for ms, want := range map[time.Duration]string{9899: "9.899", 1969: "1.969", 0: "0", 3600500: "3600.5"} {
		if got := strconv.FormatFloat(Seconds(ms*time.Millisecond+300*time.Microsecond), 'g', -1, 64); got != want {
			t.Errorf("%d ms are %s s, want %s", ms, got, want)
		}
	}
}

func TestReadTree(t *testing.T) {
	dir := t.TempDir()
	whole, missing, torn, other := key("a", "t", 1), key("a", "t", 2), key("a", "u", 1), key("a", "v", 1)
	plan := Plan{JobName: "j", Metrics: []string{}, Trials: KeysOf(whole, missing, torn, other)}
	must(t, WriteJSON(filepath.Join(dir, PlanFile), plan))
	write := func(k Key, trial any) {
		path := filepath.Join(dir, k.Dir())
		must(t, os.MkdirAll(path, 0o755))
		must(t, WriteJSON(filepath.Join(path, ResultFile), trial))
	}
	write(whole, rewarded(whole, 1))
	write(torn, "half a fi")
	write(other, rewarded(whole, 1))

	tree, err := ReadTree(dir)

	must(t, err)
	if !reflect.DeepEqual(tree.Plan, plan) || len(tree.Trials) != 1 || tree.Trials[0].Key != whole {
		t.Errorf("got %+v", tree)
	}
	if len(tree.Unreadable) != 2 {
		t.Errorf("unreadable: %v", tree.Unreadable)
	}
	if _, err := ReadTree(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory without a plan gives %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
