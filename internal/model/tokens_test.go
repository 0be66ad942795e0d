package model

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestTokensOfAnAnswer(t *testing.T) {
	const good = `{"prompt_token_ids":[1,2,3],"choices":[{"token_ids":[4,5],"logprobs":{"content":[{"logprob":-0.5},{"logprob":0}]}}]}`
	for name, one := range map[string]struct{ text, want string }{
		"whole":            {good, "[1 2 3] [4 5] [-0.5 0]"},
		"no logprobs":      {`{"prompt_token_ids":[1],"choices":[{"token_ids":[4],"logprobs":null}]}`, "[1] [4] []"},
		"nothing":          {`{"choices":[{"message":{}}]}`, "none"},
		"null":             {`{"prompt_token_ids":null,"choices":[{"token_ids":null}]}`, "none"},
		"texts":            {strings.Replace(good, "[4,5]", `["4","5"]`, 1), "none"},
		"fractions":        {strings.Replace(good, "[4,5]", `[4.5,5]`, 1), "none"},
		"negative":         {strings.Replace(good, "[4,5]", `[-4,5]`, 1), "none"},
		"huge":             {strings.Replace(good, "[4,5]", `[4,99999999999]`, 1), "none"},
		"an object":        {strings.Replace(good, "[4,5]", `{"a":1}`, 1), "none"},
		"another length":   {strings.Replace(good, "[4,5]", `[4,5,6]`, 1), "none"},
		"above 0":          {strings.Replace(good, "-0.5", `0.5`, 1), "none"},
		"logprob is text":  {strings.Replace(good, "-0.5", `"x"`, 1), "none"},
		"too large number": {strings.Replace(good, "-0.5", `-1e999`, 1), "none"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTokenReader(&Model{Config: Config{Tokens: true}}, []byte(`{}`))
			r.read(gjson.Parse(one.text))
			got := "none"
			if n := r.tokens(); n != nil {
				got = fmt.Sprint(n.Prompt, n.Completion, n.Logprobs)
			}
			if strings.ReplaceAll(got, "][", "] [") != one.want {
				t.Errorf("%s, want %s", got, one.want)
			}
		})
	}
}

// A client gets what it asked for, and otherwise the bytes of the server.
func TestTokensAreHiddenFromClients(t *testing.T) {
	const sent = `{ "id":"x",  "prompt_token_ids":[1,2], "choices":[ {"index":0,"delta":{"content":"é \u00e9"},"token_ids":[3],"logprobs":{"content":[]}} ],"usage":null}`
	for asked, want := range map[string]string{
		`{}`:                        `{ "id":"x", "choices":[ {"index":0,"delta":{"content":"é \u00e9"},"logprobs":null} ],"usage":null}`,
		`{"logprobs":true}`:         `{ "id":"x", "choices":[ {"index":0,"delta":{"content":"é \u00e9"},"logprobs":{"content":[]}} ],"usage":null}`,
		`{"return_token_ids":true}`: `{ "id":"x",  "prompt_token_ids":[1,2], "choices":[ {"index":0,"delta":{"content":"é \u00e9"},"token_ids":[3],"logprobs":null} ],"usage":null}`,
		`{"return_token_ids":true,"logprobs":true}`: sent,
	} {
		r := newTokenReader(&Model{Config: Config{Tokens: true}}, []byte(asked))
		space := func(s string) string { return strings.ReplaceAll(s, "  ", " ") }
		if got := string(r.hide([]byte(sent))); space(got) != space(want) {
			t.Errorf("%s:\n%s\nwant\n%s", asked, got, want)
		}
		e := r.hideEvent(sseEvent{raw: []byte("event: m\ndata: " + sent + "\n\n"), data: []byte(sent)})
		if got := string(e.raw); space(got) != "event: m\ndata: "+space(want)+"\n\n" {
			t.Errorf("%s: event %q", asked, got)
		}
	}
	r := newTokenReader(&Model{Config: Config{Tokens: true}}, []byte(`{}`))
	lines := sseEvent{raw: []byte("data: {\"prompt_token_ids\":\ndata: [1]}\n\n"), data: []byte("{\"prompt_token_ids\":\n[1]}")}
	if got := string(r.hideEvent(lines).raw); got != "data: {}\n\n" {
		t.Errorf("an event of two lines: %q", got)
	}
	if newTokenReader(&Model{}, nil) != nil {
		t.Error("tokens of a model whose tokens are not recorded")
	}
}

// What a record leaves out is found again.
func TestTokensAreShortened(t *testing.T) {
	before := &Tokens{Prompt: []int32{1, 2, 3}, Completion: []int32{4, 5}}
	for _, one := range []struct {
		prompt []int32
		shared int
	}{
		{[]int32{1, 2, 3, 4, 5, 6, 7}, 5}, {[]int32{1, 2, 3, 4, 9}, 4}, {[]int32{1, 9}, 1}, {[]int32{9}, 0}, {[]int32{1, 2, 3, 4, 5}, 5}, {[]int32{1}, 1},
	} {
		n := &Tokens{Prompt: one.prompt, Completion: []int32{8}, Logprobs: []float64{-1}}
		short := n.shorten(before)
		text, err := json.Marshal(short)
		if err != nil {
			t.Fatal(err)
		}
		var read RecordedTokens
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		whole := read.Whole(before)
		if short.Shared != one.shared || whole == nil || !slices.Equal(whole.Prompt, one.prompt) || !reflect.DeepEqual(whole.Completion, n.Completion) {
			t.Errorf("%v: %s, whole %+v", one.prompt, text, whole)
		}
	}
	for _, wrong := range []int{-1, 6} {
		if (&RecordedTokens{Shared: wrong}).Whole(before) != nil {
			t.Errorf("%d numbers of 5 were found", wrong)
		}
	}
	if (&RecordedTokens{Shared: 1}).Whole(nil) != nil {
		t.Error("numbers of no turn were found")
	}
}
