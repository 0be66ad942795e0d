package mine

import (
	"cmp"
	"context"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/forge/github"
)

// pullTime bounds reading a pull request.
const pullTime = 30 * time.Second

// readPulls lets tasks take the descriptions of merged pull requests for their instructions, if the
// request names the repository on GitHub. A description that cannot be read is reported, and the
// message of the commit stays.
func (m *mining) readPulls() error {
	if m.req.GitHub == "" || m.req.DryRun {
		return nil
	}
	run := m.host.GitHub()
	if run.Token == "" {
		return host.Usagef("--github %s: there is no GITHUB_TOKEN to read pull requests with", host.Clean(m.req.GitHub))
	}
	client, err := github.New(run.Token, cmp.Or(run.APIURL, github.DefaultAPI))
	if err != nil {
		return host.Usagef("--github %s: %w", host.Clean(m.req.GitHub), err)
	}
	m.options.PullText = func(ctx context.Context, number int) (title, body string, err error) {
		ctx, cancel := context.WithTimeout(ctx, pullTime)
		defer cancel()
		title, body, err = client.MergedText(ctx, m.req.GitHub, number)
		if err != nil {
			host.Linef(m.host.Output, "The message of the commit is the instruction: %s", host.Clean(err.Error()))
		}
		return title, body, err
	}
	return nil
}
