package mine

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/lib/untrusted"
)

// What metadata says about an instruction.
const (
	fromMessage = "message"
	fromPull    = "pull_request"
	isStub      = "stub"
)

// StubMark begins an instruction that somebody has to write.
const StubMark = "TO BE WRITTEN: the message of the commit does not say what to do."

const (
	minWords    = 8     // of a message that can stand as an instruction
	maxMessage  = 8_000 // bytes
	mergeFirst  = "Merge pull request #"
	instruction = "The repository is in /app. Make this change in it:\n\n"
)

// trailer matches a line of a message that is for programs. Source: git interpret-trailers.
var trailer = regexp.MustCompile(`(?i)^(signed-off-by|co-authored-by|reviewed-by|acked-by|tested-by|change-id|cc): `)

// pullNumber matches how GitHub names a pull request in the first line of a message: of a merge,
// and of a squash.
var pullNumber = regexp.MustCompile(`^(?:Merge pull request #([0-9]{1,9})\b|.*\(#([0-9]{1,9})\)$)`)

// numberOf returns the number of the pull request that a message names; 0 if it names none.
func numberOf(message string) int {
	first, _, _ := strings.Cut(message, "\n")
	found := pullNumber.FindStringSubmatch(strings.TrimSpace(first))
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1] + found[2])
	return n
}

// comment matches a comment of HTML, as templates of pull requests have them.
var comment = regexp.MustCompile(`(?s)<!--.*?(-->|$)`)

// instructionOfPull returns the instruction that a pull request's title and description make.
func instructionOfPull(title, body string) (text, from string) {
	text, from = instructionOf(title + "\n\n" + comment.ReplaceAllString(body, ""))
	if from == fromMessage {
		from = fromPull
	}
	return text, from
}

// instructionOf returns a task's instruction, and where it is from.
func instructionOf(message string) (text, from string) {
	lines := untrusted.Lines(message)
	if len(lines) > 0 && strings.HasPrefix(lines[0], mergeFirst) {
		lines = lines[1:] // the title of the pull request comes next
	}
	var kept []string
	for _, line := range lines {
		if !trailer.MatchString(line) {
			kept = append(kept, strings.TrimRight(line, " "))
		}
	}
	said := untrusted.Cut(strings.TrimSpace(strings.Join(kept, "\n")), maxMessage)
	if len(strings.Fields(said)) < minWords {
		return StubMark + "\n\n" + instruction + said + "\n", isStub
	}
	return instruction + said + "\n", fromMessage
}
