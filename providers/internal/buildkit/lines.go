package buildkit

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/lib/excerpt"
)

const (
	headLines  = 5
	tailLines  = 30
	maxLineLen = 2000
)

// colours matches the color codes that the classic builder puts around lines of standard error.
var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Lines cuts text into lines, hands them on, and remembers the first and the last ones.
type Lines struct {
	Progress func(string) // may be nil
	partial  string
	first    []string
	last     []string
	dropped  int // bytes of lines between them

	// failed has the last lines of the step that failed, if that step is known: then the tail is
	// taken from these alone.
	failed *Lines
	// step is BuildKit's name of it, "[stage 2/3] RUN true".
	step string
	// Steps says that the text is the output of the classic builder: each line that begins a step
	// empties failed.
	Steps  bool
	number int // of the current step, with Steps
}

// classicStep begins a step in the output of the classic builder, and in that of Podman, which
// counts the steps of each stage if there are several, and puts the stage before them.
var classicStep = regexp.MustCompile(`^(?:Step ([0-9]{1,4})/[0-9]{1,4} : |STEP ([0-9]{1,4})/[0-9]{1,4}: |\[[0-9]{1,4}/[0-9]{1,4}\] STEP [0-9]{1,4}/[0-9]{1,4}: )`)

// Text takes the next piece of output.
func (l *Lines) Text(piece string) {
	l.partial += piece
	for {
		line, rest, found := strings.Cut(l.partial, "\n")
		if !found {
			break
		}
		l.Line(line)
		l.partial = rest
	}
	if len(l.partial) > maxLineLen {
		l.End()
	}
}

// End hands on the last line if it has no newline.
func (l *Lines) End() {
	l.Line(l.partial)
	l.partial = ""
}

// Line takes a whole line; blank ones are left out.
func (l *Lines) Line(line string) {
	line = strings.TrimRight(line, " \r\n\t")
	// Of a progress bar that redraws itself, the last state counts.
	line = strings.ToValidUTF8(line[strings.LastIndexByte(line, '\r')+1:], "\uFFFD")
	if line == "" {
		return
	}
	line = excerpt.Middle(line, maxLineLen)
	if len(l.first) < headLines {
		l.first = append(l.first, line)
	} else {
		l.last = append(l.last, line)
	}
	if l.Steps {
		if step := classicStep.FindStringSubmatch(line); step != nil {
			l.number, _ = strconv.Atoi(step[1] + step[2]) // digits, or nothing: 0
			l.failed = &Lines{}
		} else if l.failed != nil && !strings.Contains(line, "Removing intermediate container ") {
			l.failed.Line(colours.ReplaceAllString(line, ""))
		}
	}
	if len(l.last) > tailLines {
		l.dropped += len(l.last[0]) + 1
		l.last = l.last[1:]
	}
	if l.Progress != nil {
		l.Progress(line)
	}
}

// OfStep reports whether Tail is of the step that failed alone.
func (l *Lines) OfStep() bool { return l.failed != nil }

// Tail returns the first and the last lines, of the step that failed if that is known.
func (l *Lines) Tail() string {
	if l.failed != nil {
		return l.failed.Tail()
	}
	kept := slices.Clone(l.first)
	if l.dropped > 0 {
		kept = append(kept, fmt.Sprintf("[%d bytes are left out here]", l.dropped))
	}
	return strings.Join(append(kept, l.last...), "\n")
}

// Step returns BuildKit's name of the step that failed; "" if that is not known.
func (l *Lines) Step() string { return l.step }
