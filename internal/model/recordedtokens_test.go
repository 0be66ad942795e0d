package model

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The ids that a record leaves out are restored exactly.
func TestTokensAreShortened(t *testing.T) {
	before := latestTokens{1, Tokens{Prompt: []int32{1, 2, 3}, Completion: []int32{4, 5}}}
	for _, one := range []struct {
		prompt []int32
		shared int
	}{
		{[]int32{1, 2, 3, 4, 5, 6, 7}, 5}, {[]int32{1, 2, 3, 4, 9}, 4}, {[]int32{1, 9}, 1}, {[]int32{9}, 0}, {[]int32{1, 2, 3, 4, 5}, 5}, {[]int32{1}, 1},
	} {
		short := before.shorten(Tokens{Prompt: one.prompt, Completion: []int32{8}, Logprobs: []float64{-1}})
		text, err := json.Marshal(short)
		if err != nil {
			t.Fatal(err)
		}
		turn := RecordedTurn{Turn: 2}
		if err := json.Unmarshal(text, &turn.Tokens); err != nil {
			t.Fatal(err)
		}
		r := TokensReader{before}
		whole := r.Read(turn)
		if short.Shared != one.shared || whole == nil || !slices.Equal(whole.Prompt, one.prompt) || !slices.Equal(whole.Completion, []int32{8}) || !slices.Equal(whole.Logprobs, []float64{-1}) {
			t.Errorf("%v: %s, whole %+v", one.prompt, text, whole)
		}
	}
	for name, one := range map[string]struct {
		before latestTokens
		tokens *RecordedTokens
	}{
		"no tokens":              {before, nil},
		"a negative number":      {before, &RecordedTokens{Shared: -1, After: 1}},
		"more than there are":    {before, &RecordedTokens{Shared: 6, After: 1}},
		"of a turn that is lost": {before, &RecordedTokens{Shared: 1, After: 2}},
		"of no turn":             {latestTokens{}, &RecordedTokens{Shared: 1}},
	} {
		r := TokensReader{one.before}
		if whole := r.Read(RecordedTurn{Turn: 3, Tokens: one.tokens}); whole != nil {
			t.Errorf("%s: %+v", name, whole)
		}
	}
}

// After messages were left out, because the file is full, there are no tokens that could repeat
// them.
func TestFullRecordsHaveNoTokens(t *testing.T) {
	var b bytes.Buffer
	r := NewRecorder(&b, 2000)
	for n, size := range []int{10, 5000, 10} {
		turn := Turn{N: n + 1, Whole: true, Answer: Answer{Message: Message{Role: "assistant", Parts: []Part{{Type: PartText, Text: strings.Repeat("x", size)}}}, Tokens: &Tokens{Prompt: []int32{1}, Completion: []int32{2}}}}
		if err := r.Record(turn); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, line := range lines {
		if has := strings.Contains(line, "completion_ids"); has != (i == 0) {
			t.Errorf("turn %d has tokens: %t: %.300s", i+1, has, line)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d lines", len(lines))
	}
}
