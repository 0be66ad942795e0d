package trajectory

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/model"
)

// growing returns a record of n turns, each of which has 10 ids more in its prompt than the one
// before, and messages of size bytes.
func growing(t *testing.T, n, size int) string {
	r := newRecording(t)
	messages := []model.Message{text("user", "Do it."+strings.Repeat(" ", size))}
	var prompt []int32
	for i := range n {
		for range 10 {
			prompt = append(prompt, 100_000+int32(len(prompt)))
		}
		r.tokens = &model.Tokens{Prompt: prompt[:len(prompt):len(prompt)], Completion: []int32{7, 8}, Logprobs: []float64{-1, -2}}
		answer := call(fmt.Sprint("c", i), "bash", `{}`)
		r.turn("", shell, answer, messages...)
		messages = append(messages, answer, came(fmt.Sprint("c", i), "done", false))
	}
	return r.b.String()
}

// tokensOfSteps returns the tokens of the turns of a conversation: null, or the numbers of ids.
func tokensOfSteps(t *testing.T, c Conversation) []string {
	t.Helper()
	var turns []struct{ Tokens *Tokens }
	if err := json.Unmarshal(c.Trajectory, &turns); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, one := range turns {
		if n := one.Tokens; n == nil {
			out = append(out, "null")
		} else {
			out = append(out, fmt.Sprintf("%d+%d", len(n.PromptIDs), len(n.CompletionIDs)))
		}
	}
	return out
}

// Programs for training read the names and all of the fields.
func TestTokensHaveTheShapeOfTrainingPrograms(t *testing.T) {
	r := newRecording(t)
	user := text("user", "Do it.")
	r.tokens = &model.Tokens{Prompt: []int32{1, 2}, Completion: []int32{3}, Logprobs: []float64{-0.25}}
	r.turn("", shell, text("assistant", "One."), user)
	r.tokens = &model.Tokens{Prompt: []int32{1, 2, 3, 4}, Completion: []int32{5, 6}}
	r.turn("", shell, text("assistant", "Two."), user, text("assistant", "One."), user)
	r.tokens = nil
	r.turn("", shell, text("assistant", "Three."), user, text("assistant", "One."), user, text("assistant", "Two."), user)
	record, err := Read(section(r.b.String()), 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := record.Conversation("x", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"tokens":{"prompt_ids":[1,2],"prompt_mask":[0,0],"completion_ids":[3],"completion_mask":[1],"completion_logprobs":[-0.25],"overlong_prompt":false,"is_truncated":false,"routed_experts":null}`,
		`"tokens":{"prompt_ids":[1,2,3,4],"prompt_mask":[0,0,0,0],"completion_ids":[5,6],"completion_mask":[1,1],"completion_logprobs":null,"overlong_prompt":false,"is_truncated":false,"routed_experts":null}`,
		`"tokens":null`,
	} {
		if strings.Count(string(c.Trajectory), want) != 1 {
			t.Errorf("no %s in %s", want, c.Trajectory)
		}
	}
	if c.TokensOmitted != 0 {
		t.Errorf("%d omitted", c.TokensOmitted)
	}
}

// A line that is too long with tokens is written without them, and says so. Messages count as
// before.
func TestTokensAreLeftOutFirst(t *testing.T) {
	text := growing(t, 40, 0)
	record, err := Read(section(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := record.Conversation("x", 1<<20)
	if err != nil || whole.TokensOmitted != 0 || tokensOfSteps(t, whole)[39] != "400+2" {
		t.Fatalf("%d omitted, %v", whole.TokensOmitted, err)
	}
	less, err := record.Conversation("x", len(whole.Completion)+len(whole.Trajectory)+len(whole.Tools)-1)
	if err != nil || less.TokensOmitted != 40 || strings.Join(tokensOfSteps(t, less), " ") != strings.TrimSpace(strings.Repeat("null ", 40)) {
		t.Errorf("%d omitted, %v: %s", less.TokensOmitted, err, less.Trajectory)
	}
	if _, err := record.Conversation("x", len(less.Trajectory)-1); !errors.Is(err, ErrTooLong) {
		t.Errorf("without tokens it is too long as well: %v", err)
	}

	// The bound of a record applies to its texts. The ids have a separate one.
	bare := 0
	for line := range strings.Lines(text) {
		bare += len(model.WithoutTokens([]byte(line)))
	}
	if _, err := Read(section(text), int64(bare)); err != nil {
		t.Errorf("%d bytes without tokens: %v", bare, err)
	}
	if _, err := Read(section(text), int64(bare/2)); !errors.Is(err, ErrTooLong) {
		t.Errorf("half of %d bytes: %v", bare, err)
	}
	some, err := read(section(text), 0)
	if err != nil || len(some.tokens) != 40 || some.unkept != 0 {
		t.Errorf("%d turns with tokens, %d without: %v", len(some.tokens), some.unkept, err)
	}
	few, err := read(section(text), int64(bare))
	if want := few.maxIDs; err != nil || want >= 8280 || few.unkept == 0 || len(few.tokens) == 0 || len(few.tokens)+few.unkept != 40 {
		t.Errorf("%d turns with tokens, %d without, of at most %d ids: %v", len(few.tokens), few.unkept, want, err)
	}
}

// If a turn is lost, the tokens of the turns that refer to it are left out rather than wrong.
func TestTokensAfterAGapAreLeftOut(t *testing.T) {
	lines := strings.SplitAfter(growing(t, 4, 0), "\n")
	lines[1] = "broken\n"
	c, err := read(section(strings.Join(lines, "")), 0)
	if err != nil || c.broken != 1 || len(c.tokens) != 1 || c.tokens[1] == nil || c.unkept != 2 {
		t.Errorf("%d broken, %d turns with tokens, %d without: %v", c.broken, len(c.tokens), c.unkept, err)
	}
	_, out, err := convert(strings.Join(lines, ""))
	if err != nil || !strings.Contains(out.Notes, "ids of tokens of 2 calls are left out") {
		t.Errorf("%q, %v", out.Notes, err)
	}
}

// One id per line would make the file three times as long.
func TestTokensAreNotIndented(t *testing.T) {
	for _, tokens := range []*model.Tokens{nil, {Prompt: []int32{1}, Completion: []int32{2}}} {
		r := newRecording(t)
		r.tokens = tokens
		r.turn("", shell, text("assistant", "One."), text("user", "Do it."))
		text, _, err := convert(r.b.String())
		if lines := strings.Count(string(text), "\n"); err != nil || (lines == 1) != (tokens != nil) || !json.Valid(text) {
			t.Errorf("%d lines, %v: %s", lines, err, text)
		}
	}
}
