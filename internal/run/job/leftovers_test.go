package job

import (
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
)

func TestLeftoversAreOfDeadOwners(t *testing.T) {
	for name, value := range map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "acme/widgets",
		"GITHUB_RUN_ID": "123", "GITHUB_RUN_ATTEMPT": "2", "GITHUB_JOB": "eval",
	} {
		t.Setenv(name, value)
	}
	self := environment.Self()
	dead := self
	dead.PID = 1 << 30 // beyond every kernel's largest process id
	elsewhere := self
	elsewhere.Host = "elsewhere"
	first, other, next := elsewhere, elsewhere, elsewhere
	first.Workflow.Attempt = 1
	other.Workflow.Attempt, other.Workflow.Run = 1, "https://github.com/acme/widgets/actions/runs/122"
	next.Workflow.Attempt = 3
	listed := []environment.Listed{
		{ID: "of the first attempt", Labels: environment.Labels{Job: "j", Owner: first}},
		{ID: "of the first attempt, kept", Labels: environment.Labels{Job: "j", Owner: first}, Kept: true},
		{ID: "of another run's first attempt", Labels: environment.Labels{Job: "j", Owner: other}},
		{ID: "of the next attempt", Labels: environment.Labels{Job: "j", Owner: next}},
		{ID: "own", Labels: environment.Labels{Job: "j", Owner: self}},
		{ID: "own, kept", Labels: environment.Labels{Job: "j", Owner: self}, Kept: true},
		{ID: "own, of another job", Labels: environment.Labels{Job: "k", Owner: self}},
		{ID: "of a dead run", Labels: environment.Labels{Job: "j", Owner: dead}},
		{ID: "of a dead run, kept", Labels: environment.Labels{Job: "j", Owner: dead}, Kept: true},
		{ID: "of another host", Labels: environment.Labels{Job: "j", Owner: elsewhere}},
		{ID: "of nobody known", Labels: environment.Labels{Job: "j"}},
	}
	ids := func(list []environment.Listed) (out []string) {
		for _, l := range list {
			out = append(out, l.ID)
		}
		return out
	}
	if got, want := ids(Leftovers(listed)), []string{"of the first attempt", "of a dead run"}; !slices.Equal(got, want) {
		t.Errorf("leftovers are %q, want %q", got, want)
	}
	if got, want := ids(OwnLeftovers(listed, "j")), []string{"own"}; !slices.Equal(got, want) {
		t.Errorf("own are %q, want %q", got, want)
	}
	of := func(id string, owner environment.Owner, run string, kept bool) environment.Listed {
		return environment.Listed{ID: id, Labels: environment.Labels{Job: "j", Run: run, Owner: owner}, Kept: kept}
	}
	if got, want := ids(LeftoversOf([]environment.Listed{
		of("elsewhere", elsewhere, "r", false), of("elsewhere, kept", elsewhere, "r", true), of("elsewhere, of another directory", elsewhere, "s", false),
		of("dead", dead, "r", false), of("own", self, "r", false), of("of none", elsewhere, "", false),
	}, "r")), []string{"elsewhere", "dead"}; !slices.Equal(got, want) {
		t.Errorf("of the directory are %q, want %q", got, want)
	}
	if got := LeftoversOf([]environment.Listed{of("of none", elsewhere, "", false)}, ""); len(got) > 0 {
		t.Errorf("of no directory are %q", ids(got))
	}
	listed = append(listed, environment.Listed{ID: "outcome", Labels: environment.Labels{Job: "j", Owner: self}, Kept: true, Size: 1},
		environment.Listed{ID: "of a dead run, outcome", Labels: environment.Labels{Job: "j", Owner: dead}, Kept: true, Size: 1},
		environment.Listed{ID: "of another job, outcome", Labels: environment.Labels{Job: "k", Owner: self}, Kept: true, Size: 1})
	if got, want := ids(OwnOutcomes(listed, "j")), []string{"outcome"}; !slices.Equal(got, want) {
		t.Errorf("own outcomes are %q, want %q", got, want)
	}
	if got, want := ids(OwnedBy(listed, first)), []string{"of the first attempt"}; !slices.Equal(got, want) {
		t.Errorf("the first attempt's are %q, want %q", got, want)
	}
}
