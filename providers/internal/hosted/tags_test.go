package hosted

import (
	"regexp"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
)

// tagName matches names of tags that services accept.
var tagName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,63}$`)

func TestTagsKeepLabels(t *testing.T) {
	labels := environment.Labels{Job: "Jöb \x00\n" + strings.Repeat("long", 100), Trial: "a/b", Run: "/jobs/1", Owner: environment.Self()}
	tags := TagsOf(labels)
	if got := LabelsOf(tags); got != labels {
		t.Errorf("got %+v", got)
	}
	for name, value := range tags {
		if len(value) > TagPart || !tagName.MatchString(name) {
			t.Errorf("%s: %q", name, value)
		}
	}
}
