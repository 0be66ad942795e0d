package github

import "strings"

// Guard defines which files a run may execute.
type Guard int

// The guards, strictest first.
const (
	// EveryFile: each executed file must be equal to one in a commit of the repository. Outsiders
	// can trigger such a run, or provide its subject, and it has secrets.
	EveryFile Guard = iota
	// OwnCheckout: executed files must not be from the checkout of a commit that only forks have.
	// The run is about the repository's own commits.
	OwnCheckout
	// NoGuard: any file may be executed. There are no secrets, and the token is read-only.
	NoGuard
)

// Guard returns the guard for this run. Unknown events get the strictest.
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
		// A run started by a comment or with inputs has the repository's own head, but may have
		// left any files.
		if o := a.Origin; o != nil && a.HeadRepository != "" && !a.Fork && o.Event != "workflow_run" &&
			(Actions{Event: o.Event, Inputs: true}).Guard() == OwnCheckout {
			return OwnCheckout
		}
	}
	return EveryFile
}

// OwnCommits returns the commits that GitHub says are the repository's own in this run.
func (a Actions) OwnCommits() []string {
	var own []string
	add := func(commit string) {
		if commit != "" {
			own = append(own, commit)
		}
	}
	guard := a.Guard()
	// For other refs, such as refs/pull/7/merge, the checked-out commit may be an outsider's.
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
