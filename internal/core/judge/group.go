package judge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/fields"
)

// MaxCandidates is the maximum number of trials that a judge can rank.
const MaxCandidates = 50

// GroupInput holds the data that prompts can use about the trials of a task. The caller bounds all
// texts. Names of agents and models are not used.
type GroupInput struct {
	Task       Task
	Candidates []Input // in the order in which they are shown; Label names them
}

// Label returns the name of candidate i in prompts and verdicts: A, B … Z, AA, AB …
func Label(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return Label(i/26-1) + Label(i%26)
}

// groupScene is the form of a GroupInput that templates read.
type groupScene struct {
	Task       Task
	Candidates []candidateScene
}

// candidateScene holds the data of a ranked trial for templates. It does not identify the agent.
type candidateScene struct {
	Label string
	Trial struct {
		Reply, Transcript, Stop, Error, Changes string
		Turns                                   int
	}
	Tests struct {
		Reward  any // a number, or nil
		Rewards map[string]float64
		Output  string
	}
	artifacts func(string) (string, error)
}

func newGroupScene(in GroupInput) groupScene {
	g := groupScene{Task: in.Task}
	for i, one := range in.Candidates {
		s := newScene(one)
		c := candidateScene{Label: Label(i), Tests: s.Tests, artifacts: s.artifacts}
		c.Trial.Reply, c.Trial.Transcript, c.Trial.Changes = one.Trial.Reply, one.Trial.Transcript, one.Trial.Changes
		c.Trial.Stop, c.Trial.Error, c.Trial.Turns = one.Trial.Stop, one.Trial.Error, one.Trial.Turns
		g.Candidates = append(g.Candidates, c)
	}
	return g
}

// Artifact returns the text of an artifact.
func (c candidateScene) Artifact(path string) (string, error) {
	return scene{artifacts: c.artifacts}.Artifact(path)
}

// checkGroup refuses settings that a judge of a group cannot have.
func (j *Judge) checkGroup(found *problems) {
	for _, one := range []struct {
		key string
		set bool
	}{{"verdict", len(j.Verdict) > 0}, {"criteria", len(j.Criteria) > 0}, {"score", j.Score != ""}} {
		if one.set {
			found.add(fields.Path{one.key}, "remove it, and describe in prompt which trial is better", "a judge of a group ranks trials, so its verdict is a ranking and it has no %s", one.key)
		}
	}
	if j.Placement == InTrial {
		found.add(fields.Path{"placement"}, "remove it: the judge gets a fresh environment", "the environments of the trials are gone when a group is ranked")
	}
	if j.Processes == KeepProcesses {
		found.add(fields.Path{"processes"}, "remove it", "the environments of the trials are gone when a group is ranked, and so are their processes")
	}
}

// Order returns the order, as indexes, in which n candidates are shown the nth time, from 0. Every
// second order is the reverse of the one before it, so each pair is shown equally often either way
// round. seed makes different tasks begin with different candidates.
func Order(candidates, nth int, seed uint64) []int {
	order := rand.New(rand.NewPCG(seed, uint64(nth/2))).Perm(candidates)
	if nth%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// groupQuestion is the prompt of a judge of a group that has no prompt in its specification.
const groupQuestion = "Several agents have worked on the same task, each for itself. Rank what they have done: the best is the one that does what the task asks " +
	"most correctly and completely; among equals, the one that is clearer and does nothing else."

// AskGroup returns the whole prompt of a judge of a group. at lists the evidence of all candidates;
// it is nil for a call.
func (j *Judge) AskGroup(in GroupInput, at *Paths) (string, error) {
	asked := groupQuestion
	if j.prompt != nil {
		var err error
		if asked, err = j.render(newGroupScene(in)); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	b.WriteString(strings.TrimSpace(asked))
	if j.prompt == nil && at == nil {
		b.WriteString(groupEvidence(in))
	}
	b.WriteString("\n\n---\n\n")
	n := len(in.Candidates)
	fmt.Fprintf(&b, "There are %d candidates, called %s to %s. The names and the order say nothing about them. Neither does their length: "+
		"a longer work is not better.\n\n", n, Label(0), Label(n-1))
	b.WriteString("In the verdict, ranking is a list of lists: the best candidates first, those that are equally good together in one list. " +
		"Each candidate is in it exactly once.\n\n")
	j.contract(&b, rankingForm(n), at)
	if b.Len() > maxPrompt {
		return "", errPromptSize
	}
	return b.String(), nil
}

// groupEvidence returns the evidence for a call without a prompt in its specification.
func groupEvidence(in GroupInput) string {
	most := maxPrompt / 2 / max(1, len(in.Candidates))
	var b strings.Builder
	if text := in.Task.Instruction; strings.TrimSpace(text) != "" {
		fmt.Fprintf(&b, "\n\n## The task\n\n%s", fenced("", excerpt.Middle(text, maxPrompt/8)))
	}
	for i, c := range in.Candidates {
		fmt.Fprintf(&b, "\n\n## Candidate %s", Label(i))
		for _, part := range []struct {
			title, text string
			most        int
		}{
			{"What it did", c.Trial.Transcript, most / 2}, {"The last thing that it said", c.Trial.Reply, most / 6}, {"What it changed", c.Trial.Changes, most / 6},
			{"The output of the tests", c.Tests.Output, most / 6},
		} {
			if strings.TrimSpace(part.text) != "" {
				fmt.Fprintf(&b, "\n\n### %s\n\n%s", part.title, fenced("", excerpt.Middle(part.text, part.most)))
			}
		}
	}
	return b.String()
}

// The verdict about a group, as a JSON Schema.
type (
	rankingSchema struct {
		Type       string   `json:"type"`
		Closed     bool     `json:"additionalProperties"`
		Required   []string `json:"required"`
		Properties struct {
			Reason  typeSchema `json:"reason"`
			Ranking ranksShape `json:"ranking"`
		} `json:"properties"`
	}
	ranksShape struct {
		Type  string    `json:"type"`
		Items tiedShape `json:"items"`
	}
	tiedShape struct {
		Type     string       `json:"type"`
		MinItems int          `json:"minItems"`
		Items    choiceSchema `json:"items"`
	}
)

// rankingForm returns the JSON Schema of the verdict about n candidates.
func rankingForm(n int) string {
	s := rankingSchema{Type: "object", Required: []string{"reason", "ranking"}}
	s.Properties.Reason.Type = "string"
	labels := make([]string, n)
	for i := range labels {
		labels[i] = Label(i)
	}
	s.Properties.Ranking = ranksShape{Type: "array", Items: tiedShape{Type: "array", MinItems: 1, Items: choiceSchema{Enum: labels}}}
	return indented(s)
}

// Ranking is the verdict of a judge about a group.
type Ranking struct {
	Verdict
	// Ranks holds the rank of each candidate, in the order in which they were shown: 1 is the best,
	// and equally good ones share a rank.
	Ranks []int
}

// ReadRanking reads the verdict about n candidates. The error is ErrMissing or an *InvalidError.
func (j *Judge) ReadRanking(text []byte, n int) (Ranking, error) {
	value, compact, err := j.parse(text)
	if err != nil {
		return Ranking{}, err
	}
	r := Ranking{Verdict: Verdict{JSON: compact}, Ranks: make([]int, n)}
	for name := range value {
		if name != "ranking" && name != "reason" {
			return Ranking{}, invalid("it has the property %q; there are: reason, ranking", excerpt.Line(name, 60))
		}
	}
	reason, ok := value["reason"].(string)
	if !ok {
		return Ranking{}, invalid("it has no text reason")
	}
	r.Reason = excerpt.Middle(reason, maxReason)
	list, ok := value["ranking"].([]any)
	if !ok {
		return Ranking{}, invalid("it has no list ranking")
	}
	rank := 1
	for i, item := range list {
		tied, ok := item.([]any)
		if label, alone := item.(string); alone { // ["B", "A"] cannot be misunderstood
			tied, ok = []any{label}, true
		}
		if !ok || len(tied) == 0 {
			return Ranking{}, invalid("ranking[%d] is no list of candidates", i)
		}
		for _, one := range tied {
			label, _ := one.(string)
			at := labelled(label, n)
			switch {
			case at < 0:
				return Ranking{}, invalid("there is no candidate %q; there are: %s to %s", excerpt.Line(fmt.Sprint(one), 60), Label(0), Label(n-1))
			case r.Ranks[at] > 0:
				return Ranking{}, invalid("candidate %s is in the ranking twice", label)
			}
			r.Ranks[at] = rank
		}
		rank += len(tied)
	}
	if missing := slices.Index(r.Ranks, 0); missing >= 0 {
		return Ranking{}, invalid("candidate %s is not in the ranking", Label(missing))
	}
	return r, nil
}

// labelled returns the index of the candidate with a label, or -1.
func labelled(label string, n int) int {
	for i := range n {
		if Label(i) == label {
			return i
		}
	}
	return -1
}

// Beaten returns two points per candidate for each one that it is better than, and one point for
// each that is equally good. ranks is as in Ranking.
func Beaten(ranks []int) []int {
	out := make([]int, len(ranks))
	for i, own := range ranks {
		for k, other := range ranks {
			switch {
			case i == k:
			case own < other:
				out[i] += 2
			case own == other:
				out[i]++
			}
		}
	}
	return out
}

// ErrFewCandidates and ErrManyCandidates are the reasons not to rank a group.
var (
	ErrFewCandidates  = errors.New("there are fewer than two trials to rank")
	ErrManyCandidates = fmt.Errorf("there are more than %d trials to rank: make fewer attempts, or select some with when", MaxCandidates)
)
