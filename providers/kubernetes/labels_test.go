package kubernetes

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/org/rollout-action/internal/core/environment"
)

func TestLabelValuesAreValid(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		"plain":                 "plain",
		"with.dots_and-dashes1": "with.dots_and-dashes1",
		"agent/task__1":         "agent-task__1-",
		"täsk\n":                "t-sk-",
		"---":                   "",
		"-lead":                 "lead-",
		strings.Repeat("x", 63): strings.Repeat("x", 63),
		strings.Repeat("x", 64): strings.Repeat("x", 54) + "-",
	} {
		got := labelValue(text)
		if problems := validation.IsValidLabelValue(got); len(problems) > 0 {
			t.Errorf("%q becomes %q: %v", text, got, problems)
		}
		if want == text && got != want || !strings.HasPrefix(got, want) {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if labelValue("a/b") == labelValue("a b") {
		t.Error("two texts have one value")
	}
}

func TestPodNamesAreValidAndUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range []environment.Labels{
		{}, {Job: "nightly", Trial: "agent \"a\"/data set/täsk=1,2__3\n"}, {Job: strings.Repeat("long ", 50), Trial: strings.Repeat("x", 200)}, {Job: "ABC.", Trial: "---"},
	} {
		for range 3 {
			name := podName(l)
			if problems := validation.IsDNS1123Label(name); len(problems) > 0 || seen[name] {
				t.Errorf("%+v: %s: %v", l, name, problems)
			}
			seen[name] = true
		}
	}
}

func FuzzLabelValue(f *testing.F) {
	f.Add("agent/task")
	f.Fuzz(func(t *testing.T, text string) {
		if problems := validation.IsValidLabelValue(labelValue(text)); len(problems) > 0 {
			t.Errorf("%q becomes %q: %v", text, labelValue(text), problems)
		}
		if name := podName(environment.Labels{Job: text, Trial: text}); len(validation.IsDNS1123Label(name)) > 0 {
			t.Errorf("%q gives the name %q", text, name)
		}
	})
}
