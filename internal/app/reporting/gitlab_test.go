package reporting

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

// TestCommentOnGitLab checks that a note is written where one is wanted, and that failures are
// sentences for the user.
func TestCommentOnGitLab(t *testing.T) {
	var posted []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "GET /api/v4/user":
			fmt.Fprint(w, `{"id": 1}`)
		case "GET /api/v4/projects/5/merge_requests/7/notes":
			var notes []string
			for i, body := range posted {
				text, _ := json.Marshal(body)
				notes = append(notes, fmt.Sprintf(`{"id": %d, "body": %s, "author": {"id": 1}}`, i+1, text))
			}
			fmt.Fprintf(w, "[%s]", strings.Join(notes, ","))
		case "POST /api/v4/projects/5/merge_requests/7/notes":
			var sent struct{ Body string }
			if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
				t.Error(err)
			}
			posted = append(posted, sent.Body)
			fmt.Fprint(w, `{"id": 1, "author": {"id": 1}}`)
		default:
			t.Errorf("%s %s", r.Method, r.URL)
		}
	}))
	t.Cleanup(server.Close)
	vars := map[string]string{"GITLAB_CI": "true", "CI_API_V4_URL": server.URL + "/api/v4", "CI_PROJECT_ID": "5", "CI_MERGE_REQUEST_IID": "7", "CI_JOB_ID": "9", "GITLAB_TOKEN": "secret"}
	getenv := func(name string) (string, bool) { value, ok := vars[name]; return value, ok }
	in := report.Input{Job: result.Job{JobName: "nightly", StartedAt: time.Unix(1, 0)}, Now: time.Unix(2, 0), Verdict: gate.Verdict{Outcome: gate.Pass}}
	shard := in
	shard.Plan.Shard = &result.Shard{Index: 1, Total: 2}
	for _, tc := range []struct {
		name, without, when string
		in                  report.Input
		note                string
		posted              int
	}{
		{"off", "", "off", in, "", 0},
		{"failures, and there is none", "", "failures", in, "", 0},
		{"a shard", "", "always", shard, "", 0},
		{"not for a merge request", "CI_MERGE_REQUEST_IID", "always", in, "", 0},
		{"elsewhere", "GITLAB_CI", "always", in, "there is no comment, because this is neither a run of a GitHub workflow nor a job of GitLab CI", 0},
		{"no token", "GITLAB_TOKEN", "always", in, "the merge request has no comment about this: there is no token (the variable GITLAB_TOKEN: a project access token with the scope api)", 0},
		{"always", "", "always", in, "", 1},
		{"again", "", "failures", in, "", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			value := vars[tc.without]
			delete(vars, tc.without)
			note := commentOnGitLab(t.Context(), &host.Host{Variables: host.Variables{Getenv: getenv}}, tc.in, tc.when)
			if tc.without != "" {
				vars[tc.without] = value
			}
			if note != tc.note || len(posted) != tc.posted {
				t.Errorf("the note is %q, and there are %d; want %q and %d", note, len(posted), tc.note, tc.posted)
			}
		})
	}
	if len(posted) > 0 && !strings.Contains(posted[0], "nightly") {
		t.Errorf("the note is %s", posted[0])
	}
}
