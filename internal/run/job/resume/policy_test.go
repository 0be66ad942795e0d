package resume

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

func TestResumeSelectsTrialsToRunAgain(t *testing.T) {
	for kind, want := range map[result.ErrorType]bool{
		result.TaskInvalid: false, result.TaskNotFound: false,
		result.AgentInstallFailed: false, result.AgentExecutionTimeout: false,
		result.VerifierFailed: false, result.VerifierRewardMissing: false,
		result.EnvironmentBuildFailed: true, result.EnvironmentImagePullFailed: true, result.EnvironmentStartFailed: true,
		result.EnvironmentLost: true, result.InternalError: true, result.Cancelled: true,
		result.EnvironmentTeardownFailed: false, // everything else about the trial is known
		"of_a_later_version":             false,
		"environment_of_a_later_version": true,
	} {
		failed := result.Trial{Error: &result.Error{Type: kind}}
		if got := (RerunPolicy{}).reruns(failed); got != want {
			t.Errorf("%s: run again is %v, want %v", kind, got, want)
		}
		if got := (RerunPolicy{OnlyFailed: true}).reruns(failed); got != (want && kind != result.Cancelled) {
			t.Errorf("%s with OnlyFailed: run again is %v", kind, got)
		}
		if !(RerunPolicy{Types: []result.ErrorType{kind}}).reruns(failed) {
			t.Errorf("%s is not run again although it is named", kind)
		}
		failed.Reward = new(0.5)
		if (RerunPolicy{}).reruns(failed) {
			t.Errorf("%s is run again although it has a reward", kind)
		}
	}
	if (RerunPolicy{Types: result.ErrorTypes}).reruns(result.Trial{Reward: new(0.0)}) {
		t.Error("a trial without an error is run again")
	}
}

func TestAllErrorTypesAreListed(t *testing.T) {
	types, err := ParseErrorTypes([]string{"all"})
	if err != nil || !slices.Equal(types, result.ErrorTypes) {
		t.Errorf("all is %v, %v", types, err)
	}
	text, err := os.ReadFile("../../../core/result/trial.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "ErrorType = \""); n != len(result.ErrorTypes) {
		t.Errorf("%d error types are listed, there are %d", len(result.ErrorTypes), n)
	}
}

// A task may be called like a pattern that does not match itself.
func TestNamesWithPatternsMatchThemselves(t *testing.T) {
	key := result.Key{Agent: "a", Dataset: "d", Task: "fix[1]?", Attempt: 2}
	for _, name := range []string{"a/fix[1]?", "a/d/fix[1]?__2", key.Dir(), "a/fix*", `a/fix\[1\]\?`} {
		if err := CheckTrials([]string{name}); err != nil || !(RerunPolicy{Trials: []string{name}}).names(key) {
			t.Errorf("%s does not name %s (%v)", name, key, err)
		}
	}
	if (RerunPolicy{Trials: []string{"a/fix[1]!"}}).names(key) {
		t.Error("another name matches")
	}
	key.Task = `fix[1\`
	for _, name := range []string{`a/fix[1\`, `a/d/fix[1\`, `a/fix[1\__2`, key.Dir()} {
		policy := RerunPolicy{Trials: []string{name}}
		if err := errors.Join(CheckTrials(policy.Trials), policy.checkMatches([]result.Key{key})); err != nil || !policy.names(key) {
			t.Errorf("%s does not name %s (%v)", name, key, err)
		}
	}
}
