package judging

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// Limits of the changed files that judges see.
const (
	MaxChangedFiles = 100
	MaxChangedText  = 64 << 10 // bytes of a file; larger ones are only named
	maxOneChange    = 16 << 10 // bytes of the difference of a file
	maxChanges      = 256 << 10
)

// DescribeChanges returns the files that an agent has changed as text, without secrets.
func DescribeChanges(c environment.Changes, secrets *redact.Redactor) string {
	if len(c.Files)+c.More+c.Unnamed == 0 {
		return "The agent has changed no files.\n"
	}
	text := &excerpt.Middles{Most: maxChanges}
	for _, f := range c.Files {
		for _, state := range []*environment.FileState{f.Before, f.After} {
			if state != nil && state.Text != nil {
				state.Text = secrets.Bytes(state.Text) // while a secret of several lines is in one piece
			}
		}
		text.WriteString(failure.Hide(secrets, describeChange(f)))
	}
	var b strings.Builder
	if c.More > 0 {
		fmt.Fprintf(&b, "%s not shown.\n", plural.Count(c.More, "more changed file")+" "+plural.Are(c.More))
	}
	if c.Unnamed > 0 {
		fmt.Fprintf(&b, "%s not shown, because their names cannot be shown.\n", plural.Count(c.Unnamed, "changed file")+" "+plural.Are(c.Unnamed))
	}
	return text.Middle(maxChanges) + b.String()
}

// describeChange returns a change as a unified difference, or as a line if one of the files is not
// text.
func describeChange(c environment.Change) string {
	name := shownPath(c.Path)
	before, after := textOf(c.Before), textOf(c.After)
	var b strings.Builder
	switch {
	case c.Emptied:
		fmt.Fprintf(&b, "replaced: %s was removed and created again, and its earlier content is gone\n", name)
	case before != nil && after != nil && !bytes.Equal(before, after):
		b.Write(diff.Diff(name, before, name, after))
	case c.Before == nil && after != nil && len(after) > 0:
		b.Write(diff.Diff("/dev/null", nil, name, after))
	case c.After == nil && before != nil && len(before) > 0:
		b.Write(diff.Diff(name, before, "/dev/null", nil))
	case c.Before == nil:
		fmt.Fprintf(&b, "added: %s (%s)\n", name, describeFile(c.After))
	case c.After == nil:
		fmt.Fprintf(&b, "deleted: %s (it was %s)\n", name, describeFile(c.Before))
	case before == nil || after == nil:
		fmt.Fprintf(&b, "changed: %s (%s; it was %s)\n", name, describeFile(c.After), describeFile(c.Before))
	}
	if b.Len() == 0 && c.Before.Mode == c.After.Mode {
		fmt.Fprintf(&b, "changed: %s (%s)\n", name, describeFile(c.After))
	}
	if c.Before != nil && c.After != nil && c.Before.Mode.Type() == c.After.Mode.Type() && c.Before.Mode != c.After.Mode {
		fmt.Fprintf(&b, "mode: %s %v, it was %v\n", name, c.After.Mode, c.Before.Mode)
	}
	return excerpt.Middle(b.String(), maxOneChange)
}

// textOf returns the content of a text file; nil for other and unknown contents.
func textOf(s *environment.FileState) []byte {
	if s == nil || s.Text == nil || bytes.ContainsRune(s.Text, 0) || !utf8.Valid(s.Text) {
		return nil
	}
	return s.Text
}

// describeFile describes a file in a few words.
func describeFile(s *environment.FileState) string {
	switch {
	case s == nil:
		return "gone"
	case s.Mode.IsDir():
		return "a directory"
	case s.Mode&fs.ModeSymlink != 0:
		return "a link to " + shownPath(s.Link)
	case !s.Mode.IsRegular():
		return "a special file"
	case s.Size == 0:
		return "an empty file"
	case textOf(s) == nil && s.Text != nil:
		return fmt.Sprintf("no text, %d bytes", s.Size)
	}
	return fmt.Sprintf("%d bytes", s.Size)
}

// shownPath returns a path on one line.
func shownPath(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return name
	}
	return strconv.Quote(name)
}

// addChanges adds the agent's changes. When judges run from files on disk, the file exists already.
func (e *Evidence) addChanges(changes string) error {
	const what = "the files that the agent has changed, as differences from the image"
	if changes != "" {
		if err := e.write(changesInput, what, []byte(changes)); err != nil {
			return err
		}
	} else {
		text, err := nofollow.ReadFile(filepath.Join(e.dir, changesInput), 2*maxChanges)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path.Join(inputsDir, changesInput), err)
		}
		changes = string(text)
		e.list = append(e.list, judge.File{Path: changesInput, What: what})
	}
	e.shared.Trial.Changes = excerpt.Middle(changes, maxOutput)
	return nil
}
