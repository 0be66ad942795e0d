package chat

import (
	"hash/fnv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/rendering"
	"github.com/org/rollout-action/internal/model/tokens"
)

// tokenIDs are the ids of the tokens of an answer, as vLLM states them: each word is a token. They
// are the same in every run, and the prompt of a turn begins with all of the turn before it.
type tokenIDs struct {
	prompt, completion []int
	logprobs           bool // are asked for, too
}

// endOfMessage is the id of the token that ends a message.
const endOfMessage = 2

// tokenIDsOf returns the ids for a request; nil if it does not ask for them.
func tokenIDsOf(a rendering.Answer) *tokenIDs {
	if gjson.GetBytes(a.Request, tokens.IDsKey).Type != gjson.True {
		return nil
	}
	n := &tokenIDs{logprobs: gjson.GetBytes(a.Request, "logprobs").Type == gjson.True}
	for _, m := range a.Conversation.Messages {
		n.prompt = append(n.prompt, idOf("<"+m.Role+">"))
		for _, p := range m.Parts {
			n.prompt = append(n.prompt, words(p.Text)...)
			n.prompt = append(n.prompt, words(p.Name+" "+string(p.Arguments))...)
		}
		n.prompt = append(n.prompt, endOfMessage)
	}
	n.prompt = append(n.prompt, idOf("<assistant>"))
	n.completion = words(a.Text)
	for _, one := range a.Calls {
		n.completion = append(n.completion, words(one.Name+" "+string(one.Arguments))...)
	}
	n.completion = append(n.completion, endOfMessage)
	return n
}

func words(text string) []int {
	var out []int
	for _, word := range strings.Fields(text) {
		out = append(out, idOf(word))
	}
	return out
}

func idOf(word string) int {
	h := fnv.New32a()
	h.Write([]byte(word))
	return 3 + int(h.Sum32()%50_000)
}

// part returns the ids of the answer between two shares of it.
func (n *tokenIDs) part(from, to float64) []int {
	if n == nil {
		return nil
	}
	size := float64(len(n.completion))
	return n.completion[int(from*size):int(to*size)]
}

// choice adds the ids of some of the tokens to a choice.
func (n *tokenIDs) choice(choice apijson.Object, ids []int) apijson.Object {
	if n == nil || len(ids) == 0 {
		return choice
	}
	choice["token_ids"] = ids
	if n.logprobs {
		var content []apijson.Object
		for _, id := range ids {
			content = append(content, apijson.Object{"token": "", "logprob": -float64(id%100) / 64, "top_logprobs": []any{}})
		}
		choice["logprobs"] = apijson.Object{"content": content}
	}
	return choice
}

// answer adds the ids of the prompt to an answer.
func (n *tokenIDs) answer(answer apijson.Object) apijson.Object {
	if n != nil {
		answer["prompt_token_ids"] = n.prompt
	}
	return answer
}
