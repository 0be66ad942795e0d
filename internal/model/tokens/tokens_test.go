package tokens

import (
	"fmt"
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
			r := NewReader([]byte(`{}`), false)
			r.Read([]byte(one.text))
			got := "none"
			if n := r.Tokens(); n != nil {
				got = fmt.Sprint(n.Prompt, n.Completion, n.Logprobs)
			}
			if strings.ReplaceAll(got, "][", "] [") != one.want {
				t.Errorf("%s, want %s", got, one.want)
			}
		})
	}
	r := NewReader([]byte(`{"include_reasoning":false}`), false)
	if r.Read([]byte(good)); r.Tokens() != nil {
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
		r := NewReader([]byte(asked), false)
		space := func(s string) string { return strings.ReplaceAll(s, "  ", " ") }
		if got, drop := r.Hide([]byte(sent)); drop || space(string(got)) != space(want) {
			t.Errorf("%s:\n%s\nwant\n%s", asked, got, want)
		}
		e, drop := r.HideEvent(sse.Event{Raw: []byte("event: m\ndata: " + sent + "\n\n"), Data: []byte(sent)})
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
		e, drop := NewReader([]byte(`{}`), true).HideEvent(sse.Event{Raw: []byte("data: " + sent + "\n\n"), Data: []byte(sent)})
		if drop != (want == "") || !drop && string(e.Raw) != "data: "+want+"\n\n" {
			t.Errorf("%s: %q, dropped: %t", sent, e.Raw, drop)
		}
	}
	lines := sse.Event{Raw: []byte("data: {\"prompt_token_ids\":\ndata: [1]}\n\n"), Data: []byte("{\"prompt_token_ids\":\n[1]}")}
	if e, _ := NewReader([]byte(`{}`), false).HideEvent(lines); string(e.Raw) != "data: {}\n\n" {
		t.Errorf("an event of two lines: %q", e.Raw)
	}
}
