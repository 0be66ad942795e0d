package github

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	gh "github.com/google/go-github/v66/github"
)

// HidesBase reports whether the run may be about a pull request whose base the event does not name:
// a comment, or a manual start of the workflow for a branch. See Client.BasePull.
func (a Actions) HidesBase() bool {
	event := a.Event
	if a.Origin != nil {
		event = a.Origin.Event
	}
	return a.BaseRef == "" && slices.Contains([]string{"issue_comment", "workflow_dispatch", "repository_dispatch"}, event)
}

// Evaluating returns the facts of a run that evaluates a commit; "" if it is unknown. With
// HidesBase, users see that commit instead of the event's, which is the head of the default branch.
func (a Actions) Evaluating(commit string) Actions {
	if commit = hash(commit); a.HidesBase() && (commit != "" || a.Event != "workflow_dispatch") {
		a.HeadSHA = commit
	}
	return a
}

// BasePull returns the pull request that a run with HidesBase is about: that of the comment, the
// one that an input names, or the open one whose head is the evaluated commit, or is merged in it.
// commit is "" if it is unknown; parents are its parents in the checkout, or nil. If there is none,
// or if several go to different branches, the error is ErrNoPull.
func (c *Client) BasePull(ctx context.Context, a Actions, commit string, parents []string) (Pull, error) {
	owner, repo, err := split(a.Repository)
	if err != nil {
		return Pull{}, fmt.Errorf("find the pull request: %w", err)
	}
	if number := cmp.Or(a.Number, a.Named); number != 0 {
		pr, _, err := c.api.PullRequests.Get(ctx, owner, repo, number)
		if err := c.explain(err); err != nil {
			return Pull{}, fmt.Errorf("read the pull request #%d (%s): %w", number, needsPulls, err)
		}
		return pullOfAPI(pr, a.Repository), nil
	}
	if a.Origin == nil {
		if commit == "" {
			commit = a.SHA
		}
		if commit == a.SHA && a.Ref == "refs/heads/"+a.DefaultBranch { // may be the head of a pull request to another branch
			return Pull{}, fmt.Errorf("%w: it is of %s", ErrNoPull, a.DefaultBranch)
		}
	}
	var found []Pull
	for _, sha := range slices.Concat([]string{commit}, parents[:min(len(parents), maxParents)]) {
		if sha == "" {
			continue
		}
		pulls, _, err := c.api.PullRequests.ListPullRequestsWithCommit(ctx, owner, repo, sha, &gh.ListOptions{PerPage: perPage})
		err = c.explain(err)
		if missing(err) {
			continue
		}
		if err != nil {
			return Pull{}, fmt.Errorf("find the pull request of %s (%s): %w", short(sha), needsPulls, err)
		}
		for _, pr := range pulls {
			if pr.GetState() == "open" && pr.GetHead().GetSHA() == sha && strings.EqualFold(pr.GetBase().GetRepo().GetFullName(), a.Repository) {
				found = append(found, pullOfAPI(pr, a.Repository))
			}
		}
	}
	if len(found) == 0 {
		return Pull{}, fmt.Errorf("%w: none of them has %s as its head", ErrNoPull, short(commit))
	}
	for _, p := range found {
		if p.BaseRef != found[0].BaseRef {
			return Pull{}, fmt.Errorf("%w: #%d and #%d go to different branches", errTwoBases, found[0].Number, p.Number)
		}
	}
	return found[0], nil
}

const needsPulls = "the job needs the permission pull-requests: read"

// errTwoBases is an ErrNoPull: the commit is the head of pull requests to different branches.
var errTwoBases = fmt.Errorf("%w", ErrNoPull)

// Base is the branch to compare with.
type Base struct {
	Branch string
	Pull   *Pull // that names the branch, if the event does not; nil: none does
	// Doubt says why the branch is the default one although a pull request may go to another; "":
	// it is no assumption.
	Doubt string
}

// BaselineOf returns the branch to compare with in this run. The error is a NoBaseline if the pull
// request of the comment, or that an input names, cannot be read: another branch would be a wrong
// one.
func (c *Client) BaselineOf(ctx context.Context, a Actions, commit string, parents []string) (Base, error) {
	if !a.HidesBase() {
		return Base{Branch: a.BaselineBranch()}, nil
	}
	pull, err := c.BasePull(ctx, a, commit, parents)
	var answer *APIError
	switch {
	case err == nil:
		return Base{Branch: pull.BaseRef, Pull: &pull}, nil
	case errors.As(err, &answer) && cmp.Or(a.Number, a.Named) != 0:
		return Base{}, noBaseline("the branch that the pull request goes to is unknown: %v", err)
	case errors.As(err, &answer), errors.Is(err, errTwoBases):
		return Base{Branch: a.BaselineBranch(), Doubt: fmt.Sprintf("%s, as which branch the change goes to is unknown: %v", a.BaselineBranch(), err)}, nil
	case errors.Is(err, ErrNoPull):
		return Base{Branch: a.BaselineBranch()}, nil
	}
	return Base{}, err
}

// namesPull are the names of inputs whose value is the number of a pull request, in lower case and
// with hyphens.
var namesPull = []string{"pull-request", "pull-request-number", "pull", "pull-number", "pr", "pr-number"}

// namedPull returns the pull request that the inputs of a dispatch name, as in 7 or #7; 0: none, or
// several different ones.
func namedPull(inputs ...map[string]any) int {
	named := 0
	for _, in := range inputs {
		for name, value := range in {
			if !slices.Contains(namesPull, strings.ReplaceAll(strings.ToLower(name), "_", "-")) {
				continue
			}
			if of, ok := value.(map[string]any); ok { // as in the event of a pull request
				value = of["number"]
			}
			text := fmt.Sprint(value)
			if n, ok := value.(float64); ok { // without an exponent
				text = strconv.FormatFloat(n, 'f', -1, 64)
			}
			text = strings.TrimPrefix(strings.TrimSpace(text), "#")
			n, err := strconv.ParseInt(text, 10, 32)
			switch {
			case err != nil || n < 1:
			case named != 0 && named != int(n):
				return 0
			default:
				named = int(n)
			}
		}
	}
	return named
}

func pullOfAPI(pr *gh.PullRequest, repo string) Pull {
	return Pull{pr.GetNumber(), pr.GetHead().GetSHA(), pr.GetBase().GetRef(), !strings.EqualFold(pr.GetHead().GetRepo().GetFullName(), repo)}
}
