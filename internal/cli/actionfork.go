package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/task"
)

// trigger is what is read of the event that triggered a workflow. Source: GitHub's documentation, "Webhook events and
// payloads".
type trigger struct {
	PullRequest *struct {
		Head struct {
			Repo *triggerRepo `json:"repo"`
		} `json:"head"`
		Base struct {
			SHA string `json:"sha"`
		} `json:"base"`
	} `json:"pull_request"`
	WorkflowRun *struct {
		HeadRepository *triggerRepo `json:"head_repository"`
	} `json:"workflow_run"`
	Issue *struct {
		PullRequest *struct{} `json:"pull_request"`
	} `json:"issue"`
}

type triggerRepo struct {
	FullName string `json:"full_name"`
}

// refuseForks refuses to execute what a stranger may have written, in workflows that have secrets although strangers can
// trigger them. A checkout is trusted if its commit is one that the event says is the repository's own. jobFile
// names a place that is looked at besides the workspace.
func (a *app) refuseForks(jobFile string) error {
	event := a.getenv("GITHUB_EVENT_NAME")
	if !slices.Contains([]string{"pull_request_target", "workflow_run", "issue_comment"}, event) {
		return nil
	}
	payload, err := readTrigger(a.getenv("GITHUB_EVENT_PATH"))
	if err != nil {
		return a.refusal(event, fmt.Sprintf("cannot tell whose changes these are: %v", err))
	}
	whose := payload.stranger(event, a.getenv("GITHUB_REPOSITORY"))
	if whose == "" {
		return nil
	}
	own := []string{a.getenv("GITHUB_SHA")}
	if payload.PullRequest != nil {
		own = append(own, payload.PullRequest.Base.SHA)
	}
	checkouts, all := a.checkouts(jobFile)
	if !all {
		return a.refusal(event, whose+", and there are too many files here to find all checkouts")
	}
	if len(checkouts) == 0 {
		return a.refusal(event, whose+", and the files here are in no repository that would tell where they come from")
	}
	for _, dir := range checkouts {
		switch commit := task.Commit(dir); {
		case commit == nil:
			return a.refusal(event, fmt.Sprintf("%s, and it cannot be told which commit is checked out in %s", whose, clean(dir)))
		case !slices.Contains(own, *commit):
			return a.refusal(event, fmt.Sprintf("%s, and commit %s, which is checked out in %s, is none of this repository's that the event names",
				whose, shortCommit(*commit), clean(dir)))
		}
	}
	return nil
}

func (a *app) refusal(event, why string) error {
	return usage("refused to run anything: the event %s gives this workflow the repository's secrets; %s. "+
		"Agents and tests of that checkout could read the secrets and use the token. "+
		"Run changes of forks on pull_request, which has no secrets, and report on workflow_run (examples/workflows/fork-run.yml and fork-report.yml). "+
		"If somebody you trust has read what is checked out, say so with the input allow-fork-checkout: true", event, why)
}

// stranger says whose changes the event may be about; "" if it is the repository's own.
func (t trigger) stranger(event, repository string) string {
	from := func(repo *triggerRepo) string {
		switch {
		case repo == nil:
			return "it is about a fork that is gone"
		case repo.FullName != "" && strings.EqualFold(repo.FullName, repository):
			return ""
		}
		return "it is about the fork " + clean(repo.FullName)
	}
	switch {
	case event == "pull_request_target" && t.PullRequest != nil:
		return from(t.PullRequest.Head.Repo)
	case event == "workflow_run" && t.WorkflowRun != nil:
		return from(t.WorkflowRun.HeadRepository)
	case event == "issue_comment" && t.Issue != nil && t.Issue.PullRequest == nil:
		return "" // an issue has no code
	case event == "issue_comment":
		return "it is about a pull request, perhaps of a fork"
	}
	return "it does not say what it is about"
}

// maxEvent bounds the event's file, in bytes; GitHub sends at most 25 MB.
const maxEvent = 32 << 20

func readTrigger(path string) (trigger, error) {
	var t trigger
	f, err := os.Open(path)
	if err != nil {
		return t, fmt.Errorf("read the event: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEvent))
	if err != nil {
		return t, fmt.Errorf("read the event: %w", err)
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return t, fmt.Errorf("read the event: %w", err)
	}
	return t, nil
}

// How far checkouts are looked for below the workspace; actions/checkout puts them where its input path says.
const (
	checkoutDepth   = 3
	checkoutEntries = 20_000
)

// checkouts are the working trees in the workspace, and the one around the job file. !all: there may be more.
func (a *app) checkouts(jobFile string) (found []string, all bool) {
	workspace := a.getenv("GITHUB_WORKSPACE")
	if workspace == "" {
		workspace = a.path(".")
	}
	seen := 0
	_ = filepath.WalkDir(workspace, func(path string, entry fs.DirEntry, err error) error {
		if seen++; seen > checkoutEntries {
			return filepath.SkipAll
		}
		if err != nil {
			return nil //nolint:nilerr // what cannot be read cannot be run either
		}
		if entry.Name() == ".git" {
			found = append(found, filepath.Dir(path))
			return skipFolder(entry)
		}
		if below, err := filepath.Rel(workspace, path); err == nil && strings.Count(below, string(filepath.Separator)) >= checkoutDepth {
			return skipFolder(entry)
		}
		return nil
	})
	if around := workTree(filepath.Dir(a.path(jobFile))); around != "" {
		found = append(found, around)
	}
	slices.Sort(found)
	return slices.Compact(found), seen <= checkoutEntries
}

func skipFolder(entry fs.DirEntry) error {
	if entry.IsDir() {
		return filepath.SkipDir
	}
	return nil
}

// workTree is the innermost working tree around a folder, or "".
func workTree(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	for dir := resolved(abs); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}
