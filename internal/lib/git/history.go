package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Commit is a commit of a history, compared with its first parent.
type Commit struct {
	ID      string
	Parent  string // the first parent; "" for a root
	Date    string // the author's, as in 2006-01-02T15:04:05+01:00
	Subject string // not trusted
	// Changes are the first ones, at most HistoryOptions.Changes; Changed counts all. A file that
	// moved and did not change is one change.
	Changes []Change
	Changed int
	// TooLarge: it changes more than git can compare within its memory, so Changes is empty.
	TooLarge bool
}

// Change is a file, link or submodule that a commit changed.
type Change struct {
	OldMode, Mode string // as git writes them: 100644, 120000 for a link, 160000 for a submodule; 000000: there is none
	OldBlob, Blob string // the ids of the contents
	OldName, Name string // not trusted; they differ if the file moved without a change
}

// Moved reports whether only the file's name changed.
func (c Change) Moved() bool { return c.OldName != c.Name }

// Removed reports whether the commit removed the file.
func (c Change) Removed() bool { return c.Mode == noMode }

const noMode = "000000"

// HistoryOptions say which commits History returns.
type HistoryOptions struct {
	Commits int       // at most so many
	Changes int       // of a commit: at most so many are returned
	Since   time.Time // only commits that were written since then, and committed; zero: all
}

// History returns the commit and its ancestors, newest first, by first parents: a merge is one
// commit, which changed what it changed in its first parent. In a shallow clone it ends where the
// clone ends, and the last commit has no parent. A few commits may be too large to compare.
func (l *Local) History(ctx context.Context, opts HistoryOptions) ([]Commit, error) {
	if err := l.keepShallow(); err != nil {
		return nil, err
	}
	var commits []Commit
	at, tooLarge := l, 0
	for at.ID != "" && len(commits) < opts.Commits {
		found, err := at.history(ctx, opts, opts.Commits-len(commits), true)
		if len(found) > 0 {
			commits = append(commits, found...)
			at = l.At(found[len(found)-1].Parent)
		}
		if err == nil {
			break
		}
		if tooLarge++; !errors.Is(err, errMemory) || tooLarge > maxTooLarge || at.ID == "" {
			return commits, err
		}
		alone, failed := at.history(ctx, opts, 1, false)
		if failed != nil || len(alone) == 0 {
			return commits, errors.Join(err, failed)
		}
		alone[0].TooLarge = true
		commits = append(commits, alone[0])
		at = l.At(alone[0].Parent)
	}
	if !opts.Since.IsZero() { // git compares the committer's date, which a rebase makes new
		commits = slices.DeleteFunc(commits, func(c Commit) bool {
			written, err := time.Parse(time.RFC3339, c.Date)
			return err == nil && written.Before(opts.Since)
		})
	}
	return commits, nil
}

// maxTooLarge bounds the commits of a history that git cannot compare: each takes a while.
const maxTooLarge = 5

// history returns most commits as History does, with or without their changes. With an error, it
// returns those that git wrote before it.
func (l *Local) history(ctx context.Context, opts HistoryOptions, most int, changes bool) (commits []Commit, err error) {
	args := []string{"log", "--first-parent", "-z", "--format=%x01%H %P%x02%aI%x02%s", "--max-count=" + strconv.Itoa(most)}
	if changes {
		args = append(args, "--diff-merges=first-parent", "--raw", "--no-abbrev", "-M100%", "--no-ext-diff", "--no-textconv")
	}
	if !opts.Since.IsZero() {
		args = append(args, "--since="+opts.Since.Format(time.RFC3339))
	}
	err = l.source.stream(ctx, "", append(args, l.ID, "--"), func(r *bufio.Reader) (err error) {
		commits, err = readHistory(r, opts.Changes)
		return err
	})
	return commits, err
}

// keepShallow notes in the own repository where a shallow clone ends, so that git does not look
// further.
func (l *Local) keepShallow() error {
	f, err := os.Open(filepath.Join(filepath.Dir(l.objects), "shallow"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return err
	}
	var ids strings.Builder
	for line := range strings.Lines(string(text)) {
		if id := strings.TrimSpace(line); IsID(id) {
			ids.WriteString(id + "\n")
		}
	}
	return os.WriteFile(filepath.Join(l.source.repo, "shallow"), []byte(ids.String()), 0o600)
}

// readHistory reads what git log writes: for each commit a line, and for each of its changes modes,
// ids and status, then a name, or two if the file moved. Each ends with a zero byte.
func readHistory(r *bufio.Reader, most int) ([]Commit, error) {
	var commits []Commit
	for {
		token, err := readToken(r)
		if errors.Is(err, io.EOF) {
			return commits, nil
		}
		if err != nil {
			return nil, err
		}
		token = strings.TrimPrefix(token, "\n")
		if head, ok := strings.CutPrefix(token, "\x01"); ok {
			parts := strings.SplitN(head, "\x02", 3)
			ids := strings.Fields(parts[0])
			if len(parts) != 3 || len(ids) == 0 || !IsID(ids[0]) {
				return nil, unreadable(token)
			}
			c := Commit{ID: ids[0], Date: parts[1], Subject: parts[2]}
			if len(ids) > 1 {
				c.Parent = ids[1]
			}
			commits = append(commits, c)
			continue
		}
		change, err := readChange(r, token)
		if err != nil || len(commits) == 0 {
			return nil, errors.Join(err, unreadable(token))
		}
		last := &commits[len(commits)-1]
		if last.Changed++; last.Changed <= most {
			last.Changes = append(last.Changes, change)
		}
	}
}

// readChange reads the names of a change that begins with token.
func readChange(r *bufio.Reader, token string) (Change, error) {
	words := strings.Fields(strings.TrimPrefix(token, ":"))
	if len(words) != 5 || !IsID(words[2]) || !IsID(words[3]) {
		return Change{}, unreadable(token)
	}
	name, err := readToken(r)
	c := Change{OldMode: words[0], Mode: words[1], OldBlob: words[2], Blob: words[3], OldName: name, Name: name}
	if err == nil && (words[4][0] == 'R' || words[4][0] == 'C') {
		c.Name, err = readToken(r)
	}
	return c, err
}

func unreadable(token string) error {
	return fmt.Errorf("git lists something that cannot be read: %s", safe(token))
}

// readToken reads until a zero byte and returns the first bytes of it, without the zero byte.
func readToken(r *bufio.Reader) (string, error) {
	const most = 16 << 10
	var out []byte
	for {
		part, err := r.ReadSlice(0)
		out = append(out, part[:min(len(part), most-len(out))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return string(bytes.TrimSuffix(out, []byte{0})), err
		}
	}
}

// At returns another commit of the repository, whose full id is id.
func (l *Local) At(id string) *Local {
	other := *l
	other.ID, other.source.id = id, id
	return &other
}

// Message returns the beginning of the commit's message. It is not trusted.
func (l *Local) Message(ctx context.Context) (string, error) {
	const most = 64 << 10
	var out strings.Builder
	err := l.source.stream(ctx, "", []string{"log", "--max-count=1", "--format=%B", l.ID, "--"}, func(r *bufio.Reader) error {
		_, err := io.CopyN(&out, r, most)
		if errors.Is(err, io.EOF) {
			return nil
		}
		_, rest := io.Copy(io.Discard, r)
		return errors.Join(err, rest)
	})
	return strings.ToValidUTF8(out.String(), "\uFFFD"), err
}

// Patch returns the difference between a commit and this one in some files, whose sizes the caller
// has checked. blind: differences in white space do not count.
func (l *Local) Patch(ctx context.Context, from string, blind bool, names ...string) ([]byte, error) {
	args := []string{"diff", "--no-renames", "--no-ext-diff", "--no-textconv", "--full-index", "--binary"}
	if blind {
		args = append(args, "--ignore-all-space", "--ignore-blank-lines")
	}
	return l.source.git(ctx, nil, append(append(args, from, l.ID, "--"), names...)...)
}

// Sizes returns the sizes in bytes of contents, by their ids.
func (l *Local) Sizes(ctx context.Context, ids []string) (map[string]int64, error) {
	if len(ids) == 0 {
		return map[string]int64{}, nil
	}
	return l.source.sizes(ctx, ids)
}

// Contents returns contents by their ids. The caller has checked their sizes.
func (l *Local) Contents(ctx context.Context, ids []string) (map[string][]byte, error) {
	out := make(map[string][]byte, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	err := l.source.contents(ctx, ids, func(id string, _ int64, r io.Reader) (err error) {
		out[id], err = io.ReadAll(r)
		return err
	})
	return out, err
}

// Blob is the content of a file.
type Blob struct {
	ID    string
	Bytes int64
}

// Find returns the contents of files of commits. A name is the full id of a commit, a colon and the
// name of the file; files and links are found. Names with line breaks are not found.
func (l *Local) Find(ctx context.Context, names []string) (map[string]Blob, error) {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.Contains(name, "\n") })
	found := map[string]Blob{}
	if len(names) == 0 {
		return found, nil
	}
	err := l.source.stream(ctx, strings.Join(names, "\n")+"\n", []string{"cat-file", "--batch-check"}, func(r *bufio.Reader) error {
		for _, name := range names {
			line, err := r.ReadString('\n')
			if err != nil {
				return fmt.Errorf("read what git writes: %w", err)
			}
			words := strings.Fields(strings.TrimPrefix(line, name)) // of what does not exist, git repeats the name
			if len(words) != 3 || words[1] != "blob" || !IsID(words[0]) {
				continue
			}
			size, err := strconv.ParseInt(words[2], 10, 64)
			if err != nil {
				return err
			}
			found[name] = Blob{words[0], size}
		}
		return nil
	})
	return found, err
}
