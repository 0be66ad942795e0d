package doctor

import (
	"errors"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/lib/nofollow"
)

// commentPermission is the permission that comments on pull requests need.
const commentPermission = "pull-requests: write"

// ownToken is the beginning of tokens that GitHub makes for workflows and apps.
const ownToken = "ghs_"

// maxWorkflow bounds the size of a workflow that is read.
const maxWorkflow = 1 << 20

// comments reports whether the token may write comments. GitHub has no request that tells it
// without writing, so this reads the permissions that the workflow gives to the job, in the
// checkout.
func (d *diagnosis) comments(run github.Environment) {
	add := func(state State, text, hint string) { d.add(areaGitHub, commentPermission, state, text, hint) }
	const untried = "not checked: GitHub does not tell it without a comment being written, and "
	switch {
	case run.Fork || run.Dependabot:
		add(Note, "runs of a fork or of Dependabot cannot write comments", "a second workflow on workflow_run can comment for them")
		return
	case !strings.HasPrefix(run.Token, ownToken):
		add(Note, untried+"the token is not that of the workflow", "")
		return
	case run.Workspace == "" || run.WorkflowFile == "":
		add(Note, untried+"this run names no workflow", "")
		return
	}
	file := filepath.Join(".github", "workflows", filepath.Base(run.WorkflowFile))
	data, err := nofollow.ReadFile(filepath.Join(run.Workspace, file), maxWorkflow)
	if err != nil {
		add(Note, untried+file+" is not in the checkout", "check out the repository before this step")
		return
	}
	switch given, err := mayComment(data, run.Job); {
	case err != nil:
		add(Note, untried+err.Error(), "give the job the permission "+commentPermission)
	case given:
		add(OK, file+" gives this permission to the job; it was not tried, because that would write a comment", "")
	default:
		add(Note, file+" does not give this permission to the job, so no comment is written", "give the job the permission "+commentPermission)
	}
}

// mayComment reports whether a workflow gives one of its jobs the permission to write comments. The
// error says why the workflow does not tell it.
func mayComment(workflow []byte, job string) (bool, error) {
	var w struct {
		Permissions yaml.Node `yaml:"permissions"`
		Jobs        map[string]struct {
			Permissions yaml.Node `yaml:"permissions"`
			Uses        string    `yaml:"uses"`
		} `yaml:"jobs"`
	}
	if err := yaml.Unmarshal(workflow, &w); err != nil {
		return false, errors.New("the workflow is no valid YAML")
	}
	j, ok := w.Jobs[job]
	if !ok || j.Uses != "" {
		return false, errors.New("the job belongs to another workflow, which this one calls")
	}
	permissions := j.Permissions
	if permissions.Kind == 0 {
		permissions = w.Permissions
	}
	if permissions.Kind == 0 {
		return false, errors.New("the workflow has no permissions, so that the repository's settings decide")
	}
	if permissions.Kind == yaml.ScalarNode {
		return permissions.Value == "write-all", nil
	}
	var levels map[string]string
	if err := permissions.Decode(&levels); err != nil {
		return false, errors.New("its permissions cannot be read")
	}
	return levels["pull-requests"] == "write", nil
}
