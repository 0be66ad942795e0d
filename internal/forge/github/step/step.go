// Package step writes the files by which a step of a GitHub workflow tells its runner its outputs,
// its state for a later step and its summary.
package step

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/lib/ghvars"
)

// This package writes the files itself. go-githubactions separates values with a constant line, so
// a value that contains it could set other outputs; and it panics if a file is not set or cannot be
// written.

// Getenv returns an environment variable, like os.LookupEnv.
type Getenv = func(string) (string, bool)

const (
	// maxOutput is GitHub's limit for all outputs of a job, in bytes of UTF-16. Source:
	// docs.github.com, "Outputs for jobs".
	maxOutput = 1 << 20
	// maxSummary is the maximum size of a step's summary in bytes: GitHub drops a larger one.
	// Source: actions/runner, FileCommandManager.cs, AttachmentSizeLimit.
	maxSummary = 1 << 20
	// aimSummary leaves space for the runner, which lengthens the text when it masks secrets.
	aimSummary = 1_000_000
)

// ErrSummaryFull means that the step's summary would exceed GitHub's limit.
var ErrSummaryFull = errors.New("the summary of the step is full")

// outputName matches names that an expression in a workflow can use.
var outputName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// SetOutput sets an output of the step. Outside a step (GITHUB_OUTPUT is not set) it does nothing.
func SetOutput(getenv Getenv, name, value string) error {
	return setValue(ghvars.Read(getenv).Output, "output", name, value)
}

// SaveState saves a value for the action's post step, which gets it as STATE_<name>.
func SaveState(getenv Getenv, name, value string) error {
	return setValue(ghvars.Read(getenv).State, "state", name, value)
}

func setValue(file ghvars.File, what, name, value string) error {
	if !outputName.MatchString(name) {
		return fmt.Errorf("%q cannot be the name of an %s: letters, digits, - and _ can, after a letter or _", name, what)
	}
	if !utf8.ValidString(value) {
		return fmt.Errorf("set the %s %s: the value is not UTF-8", what, name)
	}
	if size := 2 * len(utf16.Encode([]rune(value))); size > maxOutput {
		return fmt.Errorf("set the %s %s: its %d bytes are more than the %d that GitHub keeps; use an artifact",
			what, name, size, maxOutput)
	}
	delimiter, err := delimiter(value)
	if err != nil {
		return fmt.Errorf("set the %s %s: %w", what, name, err)
	}
	record := fmt.Sprintf("%s<<%s\n%s\n%s\n", name, delimiter, value, delimiter)
	if err := appendTo(file, addition{text: record}); err != nil {
		return fmt.Errorf("set the %s %s: %w", what, name, err)
	}
	return nil
}

// delimiter returns a line that does not occur in the value and that its author cannot guess.
func delimiter(value string) (string, error) {
	for {
		random := make([]byte, 16)
		if _, err := rand.Read(random); err != nil {
			return "", err
		}
		if d := fmt.Sprintf("rollout_%x", random); !strings.Contains(value, d) {
			return d, nil
		}
	}
}

// AppendSummary appends Markdown to the step's summary. Outside a step it does nothing. If it does
// not fit, it writes nothing, because GitHub would drop the whole summary; the error is then
// ErrSummaryFull.
func AppendSummary(getenv Getenv, markdown []byte) error {
	if len(bytes.TrimSpace(markdown)) == 0 {
		return nil
	}
	text := string(bytes.TrimRight(markdown, "\n")) + "\n"
	if err := appendTo(ghvars.Read(getenv).Summary, addition{text: text, apart: true, limit: maxSummary}); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}

// SummarySpace returns the number of bytes that fit into the summary, a little less than GitHub
// accepts. Outside a step, or if the file cannot be read, it returns the size for an empty summary.
func SummarySpace(getenv Getenv) int {
	info, err := os.Stat(ghvars.Read(getenv).Summary.Path)
	if err != nil {
		return aimSummary
	}
	return int(max(0, aimSummary-2-info.Size()))
}

// addition is text to append to a file.
type addition struct {
	text  string
	apart bool  // separate it with an empty line
	limit int64 // of the whole file, in bytes; 0: none
}

// appendTo appends to a file, beginning on a new line, in one write. Outside a step it does
// nothing.
func appendTo(to ghvars.File, add addition) (err error) {
	if to.Path == "" {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", to.Variable, err)
		}
	}()
	file, err := os.OpenFile(to.Path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	open, err := endsOpen(file, info.Size())
	if err != nil {
		return err
	}
	text := add.text
	if add.apart && info.Size() > 0 {
		text = "\n" + text
	}
	if open {
		text = "\n" + text
	}
	if size := info.Size() + int64(len(text)); add.limit > 0 && size > add.limit {
		return fmt.Errorf("%w: %d bytes, with those that are there, are more than %d", ErrSummaryFull, size, add.limit)
	}
	_, err = file.WriteString(text)
	return err
}

// endsOpen reports whether the last line of the file is incomplete: appended text would become a
// part of it.
func endsOpen(file *os.File, size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, size-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}
