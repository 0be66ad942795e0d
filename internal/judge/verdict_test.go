package judge

import (
	"errors"
	"testing"
)

// compiled returns a judge without problems.
func compiled(t *testing.T, s Spec) *Judge {
	t.Helper()
	if s.Name == "" {
		s.Name = "quality"
	}
	j, found := Compile(s)
	if len(found) > 0 {
		t.Fatalf("problems: %+v", found)
	}
	return j
}

func TestReadAFencedReply(t *testing.T) {
	j := compiled(t, Spec{Agent: Call, Prompt: "How good is it?"})
	for _, text := range []string{
		`{"reason": "fine", "score": 0.5}`, "```json\n{\"reason\": \"fine\", \"score\": 0.5}\n```", "```{\"reason\": \"fine\", \"score\": 0.5}```",
		"``` json {\"reason\": \"fine\", \"score\": 0.5} ```\n",
	} {
		if v, err := j.Read([]byte(text)); err != nil || v.Score != 0.5 || v.Reason != "fine" {
			t.Errorf("%s: %+v, %v", text, v, err)
		}
	}
	if _, err := j.Read([]byte("```\n```")); !errors.Is(err, ErrMissing) {
		t.Errorf("an empty block: %v", err)
	}
}
