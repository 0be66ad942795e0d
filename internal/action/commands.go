package action

import (
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sethvargo/go-githubactions"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// commandsTo returns a writer of workflow commands. The library panics if it cannot write.
func commandsTo(h *host.Host) *githubactions.Action {
	return githubactions.New(githubactions.WithWriter(ignoreErrors{h.Commands}), githubactions.WithGetenv(func(name string) string {
		value, _ := h.Getenv(name)
		return value
	}))
}

// ignoreErrors is a writer that never fails: the reader may be gone.
type ignoreErrors struct{ w io.Writer }

func (i ignoreErrors) Write(b []byte) (int, error) {
	_, _ = i.w.Write(b)
	return len(b), nil
}

// shortestMask is the minimum length in characters of a value that is hidden; hiding shorter ones
// would hide half the log. Package redact uses the same.
const shortestMask = 6

// mask makes the runner hide values in the log and in summaries. The runner hides each line
// separately, however short, so short lines of a secret (the braces of a key in JSON) are not
// passed to it.
func mask(h *host.Host, secrets []string) {
	for _, secret := range secrets {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); utf8.RuneCountInString(line) >= shortestMask {
				commandsTo(h).AddMask(line)
			}
		}
	}
}

// maxAnnotated is how many annotations of a kind the runner keeps per step. Source: actions/runner,
// ExecutionContext.cs, _maxCountPerIssueType.
const maxAnnotated = 10

// Annotate reports an error on the workflow's page; a problem in a file is shown in that file.
func Annotate(h *host.Host, err error) {
	problems, ok := err.(diag.List) //nolint:errorlint // callers have found the list already
	if !ok {
		annotate(h, diag.Diagnostic{Message: err.Error()})
		return
	}
	for i, p := range problems.Errors() {
		if i < maxAnnotated {
			annotate(h, p)
		}
	}
}

func annotate(h *host.Host, p diag.Diagnostic) {
	fields := map[string]string{"title": "Rollout"}
	for key, at := range map[string]int{"line": p.Line, "col": p.Column} {
		if at > 0 {
			fields[key] = strconv.Itoa(at)
		}
	}
	switch {
	case strings.HasPrefix(p.File, "--"): // a flag, as in --set KEY=VALUE: the page would link to a missing file
		p.Message = p.File + ": " + p.Message
	case p.File != "":
		fields["file"] = untrusted.Line(p.File)
	}
	if p.Hint != "" {
		p.Message += " (" + p.Hint + ")"
	}
	var lines []string
	for line := range strings.Lines(p.Message) {
		lines = append(lines, untrusted.Line(line))
	}
	commandsTo(h).WithFieldsMap(fields).Errorf("%s", strings.Join(lines, "\n"))
}
