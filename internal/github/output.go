package github

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
)

// The files are written here and not by go-githubactions: it separates values by a line that is always the same, so a
// value with that line in it could set other outputs; and it panics where a file is not set or cannot be written.

const (
	// maxOutput is what GitHub keeps of all outputs of a job, in bytes of UTF-16. Source: docs.github.com, "Outputs for jobs".
	maxOutput = 1 << 20
	// maxSummary is the largest summary of a step in bytes: a larger one is dropped as a whole. Source: actions/runner,
	// FileCommandManager.cs, AttachmentSizeLimit.
	maxSummary = 1 << 20
	// aimSummary leaves room for what the runner adds when it masks secrets.
	aimSummary = 1_000_000
)

// ErrSummaryFull says that the step's summary would become larger than GitHub accepts.
var ErrSummaryFull = errors.New("the summary of the step is full")

// outputName is what an expression in a workflow can name.
var outputName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// SetOutput sets an output of the step. Outside of a step (GITHUB_OUTPUT is not set) there is nothing to do.
func SetOutput(getenv Getenv, name, value string) error {
	return setValue(getenv, "GITHUB_OUTPUT", "output", name, value)
}

// SaveState keeps a value for the action's post step, which finds it as STATE_<name>.
func SaveState(getenv Getenv, name, value string) error {
	return setValue(getenv, "GITHUB_STATE", "state", name, value)
}

func setValue(getenv Getenv, file, what, name, value string) error {
	if !outputName.MatchString(name) {
		return fmt.Errorf("%q cannot be the name of an %s: letters, digits, - and _ can, after a letter or _", name, what)
	}
	if !utf8.ValidString(value) {
		return fmt.Errorf("set the %s %s: the value is not UTF-8", what, name)
	}
	if size := 2 * len(utf16.Encode([]rune(value))); size > maxOutput {
		return fmt.Errorf("set the %s %s: its %d bytes are more than the %d that GitHub keeps; pass it on in an artifact",
			what, name, size, maxOutput)
	}
	delimiter, err := delimiter(value)
	if err != nil {
		return fmt.Errorf("set the %s %s: %w", what, name, err)
	}
	record := fmt.Sprintf("%s<<%s\n%s\n%s\n", name, delimiter, value, delimiter)
	if err := appendTo(getenv, file, addition{text: record}); err != nil {
		return fmt.Errorf("set the %s %s: %w", what, name, err)
	}
	return nil
}

// delimiter is a line that does not occur in the value and cannot be guessed by who made it.
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

// AppendSummary adds Markdown to the step's summary. Outside of a step there is nothing to do. If it does not fit, nothing is
// written: GitHub would drop what is there already, too. The error is then ErrSummaryFull.
func AppendSummary(getenv Getenv, markdown []byte) error {
	if len(bytes.TrimSpace(markdown)) == 0 {
		return nil
	}
	text := string(bytes.TrimRight(markdown, "\n")) + "\n"
	if err := appendTo(getenv, "GITHUB_STEP_SUMMARY", addition{text: text, apart: true, limit: maxSummary}); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}

// SummaryRoom is how many bytes the summary has room for, so that a report can be made to fit: somewhat less than GitHub
// accepts. Outside of a step, or if the file cannot be read, it is what an empty one has.
func SummaryRoom(getenv Getenv) int {
	file, _ := getenv("GITHUB_STEP_SUMMARY")
	info, err := os.Stat(file)
	if err != nil {
		return aimSummary
	}
	return int(max(0, aimSummary-2-info.Size()))
}

// addition is what is added to a file.
type addition struct {
	text  string
	apart bool  // an empty line separates it from what is there
	limit int64 // of the whole file, in bytes; 0: none
}

// appendTo adds to the file that a variable names, on a line of its own and in one write. Where the variable is not set,
// there is nothing to do.
func appendTo(getenv Getenv, variable string, add addition) (err error) {
	path, _ := getenv(variable)
	if path == "" {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", variable, err)
		}
	}()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o644)
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

// endsOpen reports whether the file's last line has no end: what is added would become a part of it.
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
