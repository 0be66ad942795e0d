package github

import "strings"

// Guard says what may be executed in a run.
type Guard int

// The guards.
const (
	// EveryFile: what is executed must be, file by file, what a commit of the repository's own has. Strangers can bring such a
	// run about, or its subject may be theirs, and it has secrets.
	EveryFile Guard = iota
	// OwnCheckout: what is executed must not be the checkout of a commit that only forks have. The run is about the
	// repository's own commits.
	OwnCheckout
	// NoGuard: anything may be executed. There are no secrets, and the token only reads.
	NoGuard
)

// Guard says what may be executed in this run. An event that is not known here is guarded most.
// Source: docs.github.com, "Events that trigger workflows", "Securely using pull_request_target".
func (a Actions) Guard() Guard {
	switch a.Event {
	case "push", "schedule", "merge_group", "release", "create", "delete":
		return OwnCheckout
	case "pull_request", "pull_request_review", "pull_request_review_comment":
		if a.ReadOnly() {
			return NoGuard
		}
		return OwnCheckout
	case "workflow_dispatch", "repository_dispatch":
		if !a.Inputs {
			return OwnCheckout
		}
	case "pull_request_target":
		if a.Number != 0 && a.HeadRepository != "" && !a.Fork {
			return OwnCheckout
		}
	case "workflow_run":
		// A run that a comment or inputs brought about has the repository's own head, whatever it has left behind.
		if o := a.Origin; o != nil && a.HeadRepository != "" && !a.Fork && o.Event != "workflow_run" &&
			(Actions{Event: o.Event, Inputs: true}).Guard() == OwnCheckout {
			return OwnCheckout
		}
	}
	return EveryFile
}

// OwnCommits are the commits that GitHub itself says are the repository's own in this run.
func (a Actions) OwnCommits() []string {
	var own []string
	add := func(commit string) {
		if commit != "" {
			own = append(own, commit)
		}
	}
	guard := a.Guard()
	// Under other refs, such as refs/pull/7/merge, a stranger's commit may be checked out.
	if guard == OwnCheckout || strings.HasPrefix(a.Ref, "refs/heads/") || strings.HasPrefix(a.Ref, "refs/tags/") {
		add(a.SHA)
	}
	add(a.BaseSHA)
	if guard == OwnCheckout {
		add(a.HeadSHA)
		add(a.Before)
	}
	return own
}
