package reuse

import (
	"fmt"
	"slices"
	"strings"
)

// Reason is the reason why no result of a trial can be taken over. A larger one was closer to being
// taken over.
type Reason int

// The reasons.
const (
	NoResult Reason = iota
	Unreadable
	OnlyConfirmed
	NotCompleted
	TakenOver
	NoDigests
	OtherTask
	OtherFormat
	OtherAgent
	OtherConfig
	OtherImage
	UnknownImage
	Unaddressed
)

var reasonText = []string{
	NoResult: "without a result there", Unreadable: "with a result that cannot be read", OnlyConfirmed: "with an attempt that was made because the task looked broken or fixed",
	NotCompleted: "with an error or without a reward",
	TakenOver:    "that the other job had taken over itself",
	NoDigests:    "of a version of Rollout that wrote no digests", OtherTask: "of other files of the task", OtherFormat: "of the task in another format", OtherAgent: "of another agent",
	OtherConfig: "of another configuration", OtherImage: "on another image, or on a stand-in for it",
	UnknownImage: "on an image named by a tag, whose content is not known any more", Unaddressed: "with what no digest covers",
}

// Findings holds the results that can be taken over.
type Findings struct {
	Found []Found
	// Missed counts the trials that cannot be taken over, by the reason that came closest.
	Missed map[Reason]int
}

// Reasons returns why trials cannot be taken over, the most frequent reason first, and "" if all
// can be.
func (f Findings) Reasons() string {
	var whys []Reason
	for w := range f.Missed {
		whys = append(whys, w)
	}
	slices.SortFunc(whys, func(a, b Reason) int {
		if f.Missed[a] != f.Missed[b] {
			return f.Missed[b] - f.Missed[a]
		}
		return int(b - a)
	})
	var parts []string
	for _, w := range whys {
		parts = append(parts, fmt.Sprintf("%d %s", f.Missed[w], reasonText[w]))
	}
	return strings.Join(parts, ", ")
}
