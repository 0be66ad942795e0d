package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/model/sse"
)

func TestTokensOfAnAnswer(t *testing.T) {
	const good = `{"prompt_token_ids":[1,2,3],"choices":[{"index":0,"token_ids":[4,5],"logprobs":{"content":[{"logprob":-0.5},{"logprob":0}]}}]}`
	const sglang = `{"choices":[{"index":0,"prompt_token_ids":[1,2,3],"response_token_ids":[4,5],"logprobs":{"content":[{"logprob":-0.5},{"logprob":0}]}}]}`
	for name, one := range map[string]struct{ text, want string }{
		"vLLM":               {good, "[1 2 3] [4 5] [-0.5 0]"},
		"SGLang":             {sglang, "[1 2 3] [4 5] [-0.5 0]"},
		"SGLang's extension": {`{"choices":[],"sglext":{"input_ids":[1,2,3],"output_ids":[[4,5],[6]]}}`, "[1 2 3] [4 5] []"},
		"no logprobs":        {`{"prompt_token_ids":[1],"choices":[{"token_ids":[4],"logprobs":null}]}`, "[1] [4] []"},
		"another choice":     {strings.Replace(good, `"choices":[`, `"choices":[{"index":1,"token_ids":[9],"logprobs":{"content":[{"logprob":-9}]}},`, 1), "[1 2 3] [4 5] [-0.5 0]"},
		"rounded":            {strings.Replace(good, "-0.5", "1e-7", 1), "[1 2 3] [4 5] [1e-07 0]"},
		"nothing":            {`{"choices":[{"message":{}}]}`, "none"},
		"null":               {`{"prompt_token_ids":null,"choices":[{"token_ids":null}]}`, "none"},
		"no JSON":            {`[DONE]`, "none"},
		"texts":              {strings.Replace(good, "[4,5]", `["4","5"]`, 1), "none"},
		"fractions":          {strings.Replace(good, "[4,5]", `[4.5,5]`, 1), "none"},
		"negative":           {strings.Replace(good, "[4,5]", `[-4,5]`, 1), "none"},
		"huge":               {strings.Replace(good, "[4,5]", `[4,99999999999]`, 1), "none"},
		"an object":          {strings.Replace(good, "[4,5]", `{"a":1}`, 1), "none"},
		"a text":             {strings.Replace(good, "[1,2,3]", `"1,2,3"`, 1), "none"},
		"no prompt":          {strings.Replace(good, "[1,2,3]", `[]`, 1), "none"},
		"too many":           {strings.Replace(good, "[1,2,3]", "[1"+strings.Repeat(",1", maxTokenIDs)+"]", 1), "none"},
		"another length":     {strings.Replace(good, "[4,5]", `[4,5,6]`, 1), "[1 2 3] [4 5 6] []"},
		"above 0":            {strings.Replace(good, "-0.5", `0.5`, 1), "[1 2 3] [4 5] []"},
		"logprob is text":    {strings.Replace(good, "-0.5", `"x"`, 1), "[1 2 3] [4 5] []"},
		"infinite logprob":   {strings.Replace(good, "-0.5", `-1e999`, 1), "[1 2 3] [4 5] []"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTokenReader([]byte(`{}`), false)
			r.read([]byte(one.text))
			got := "none"
			if n := r.tokens(); n != nil {
				got = fmt.Sprint(n.Prompt, n.Completion, n.Logprobs)
			}
			if strings.ReplaceAll(got, "][", "] [") != one.want {
				t.Errorf("%s, want %s", got, one.want)
			}
		})
	}
	r := newTokenReader([]byte(`{"include_reasoning":false}`), false)
	if r.read([]byte(good)); r.tokens() != nil {
		t.Error("ids without those of the reasoning were taken as whole")
	}
}

// A client gets the fields that it asked for, and otherwise the bytes of the server.
func TestTokensAreHiddenFromClients(t *testing.T) {
	const sent = `{ "id":"x",  "prompt_token_ids":[1,2], "choices":[ {"index":0,"delta":{"content":"é \u00e9"},"token_ids":[3],"logprobs":{"content":[]}} ],"usage":null}`
	for asked, want := range map[string]string{
		`{}`:                        `{ "id":"x", "choices":[ {"index":0,"delta":{"content":"é \u00e9"},"logprobs":null} ],"usage":null}`,
		`{"logprobs":true}`:         `{ "id":"x", "choices":[ {"index":0,"delta":{"content":"é \u00e9"},"logprobs":{"content":[]}} ],"usage":null}`,
		`{"return_token_ids":true}`: `{ "id":"x",  "prompt_token_ids":[1,2], "choices":[ {"index":0,"delta":{"content":"é \u00e9"},"token_ids":[3],"logprobs":null} ],"usage":null}`,
		`{"return_token_ids":true,"logprobs":true}`: sent,
	} {
		r := newTokenReader([]byte(asked), false)
		space := func(s string) string { return strings.ReplaceAll(s, "  ", " ") }
		if got, drop := r.hide([]byte(sent)); drop || space(string(got)) != space(want) {
			t.Errorf("%s:\n%s\nwant\n%s", asked, got, want)
		}
		e, drop := r.hideEvent(sse.Event{Raw: []byte("event: m\ndata: " + sent + "\n\n"), Data: []byte(sent)})
		if got := string(e.Raw); drop || space(got) != "event: m\ndata: "+space(want)+"\n\n" {
			t.Errorf("%s: event %q", asked, got)
		}
	}
	for sent, want := range map[string]string{
		`{"choices":[{"index":0,"prompt_token_ids":[1],"response_token_ids":[2],"message":{}}]}`:         `{"choices":[{"index":0,"message":{}}]}`,
		`{"choices":[],"usage":null,"sglext":{"input_ids":[1],"output_ids":[[2]]}}`:                      "",
		`{"choices":[],"usage":null,"sglext":{"input_ids":[1],"output_ids":[[2]],"routed_experts":"x"}}`: `{"choices":[],"usage":null,"sglext":{"routed_experts":"x"}}`,
		`{"choices":[],"usage":{"prompt_tokens":1},"sglext":{"input_ids":[1]}}`:                          `{"choices":[],"usage":{"prompt_tokens":1}}`,
		`{"choices":[],"usage":null}`: `{"choices":[],"usage":null}`,
		`[DONE]`:                      `[DONE]`,
	} {
		e, drop := newTokenReader([]byte(`{}`), true).hideEvent(sse.Event{Raw: []byte("data: " + sent + "\n\n"), Data: []byte(sent)})
		if drop != (want == "") || !drop && string(e.Raw) != "data: "+want+"\n\n" {
			t.Errorf("%s: %q, dropped: %t", sent, e.Raw, drop)
		}
	}
	lines := sse.Event{Raw: []byte("data: {\"prompt_token_ids\":\ndata: [1]}\n\n"), Data: []byte("{\"prompt_token_ids\":\n[1]}")}
	if e, _ := newTokenReader([]byte(`{}`), false).hideEvent(lines); string(e.Raw) != "data: {}\n\n" {
		t.Errorf("an event of two lines: %q", e.Raw)
	}
}

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
