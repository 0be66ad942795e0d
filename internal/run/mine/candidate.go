package mine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Candidate is a commit and what became of it.
type Candidate struct {
	Commit    string
	Parent    string
	Date      string // the author's, in RFC 3339
	Subject   string // safe to print
	Task      string // the name of its task
	Reason    Reason
	Detail    string // more about the reason, safe to print; may be ""
	Files     int
	Lines     int      // of code, added and removed; 0 if they were not counted
	Languages []string // of the code, sorted
	Tests     int      // names of tests that the task requires; 0 if they are not known

	// Broken are the tests that passed without the change and failed with it, in the last run that
	// compared them.
	Broken []string

	changes   []git.Change
	tests     []string // the test files that a runner runs
	language  string   // theirs, or that of the first one
	runner    string   // a key of runners
	plan      plan     // how they run
	module    module   // the one that they are in
	near      []string // targets of tests near the change
	nearFiles []string // their files
	solution  []string // the changed files that are no tests
}

// drop sets why no task is made of a candidate.
func (c *Candidate) drop(why Reason, format string, args ...any) {
	c.Reason, c.Detail = why, fmt.Sprintf(format, args...)
}

// Options say which candidates to look for.
type Options struct {
	Limit  int                    // at most so many promising candidates
	Paths  []string               // globs of code files; a directory stands for what is below it; empty: all
	Exists func(task string) bool // whether the dataset has a task
	// Before returns why an earlier run made no task of a promising candidate, if one did not.
	Before func(c *Candidate) (why Reason, detail string, known bool)
}

// batch is how many commits are read together: each start of git takes longer than reading most of
// them, and the contents of a batch are in memory.
const batch = 8

// Look classifies commits in their order, until it has found so many promising ones as asked for.
// It returns those that it looked at.
func Look(ctx context.Context, repo *git.Local, commits []git.Commit, opts Options) ([]Candidate, error) {
	var out []Candidate
	for found := 0; found < opts.Limit && len(out) < len(commits); {
		first := len(out)
		for promising := 0; promising < min(batch, opts.Limit-found) && len(out) < len(commits); {
			c := newCandidate(commits[len(out)])
			if byNames(&c, commits[len(out)], opts); c.Reason == Promising {
				promising++
			}
			out = append(out, c)
		}
		if err := byModules(ctx, repo, out[first:]); err != nil {
			return out[:first], err
		}
		if err := byContents(ctx, repo, out[first:]); err != nil {
			return out[:first], err
		}
		for i := range out[first:] {
			if c := &out[first+i]; c.Reason == Promising {
				if !opts.left(c) {
					found++
				}
			}
		}
	}
	return out, nil
}

// left drops a candidate that an earlier run left out, and reports whether one did.
func (o Options) left(c *Candidate) bool {
	if o.Before == nil {
		return false
	}
	why, detail, known := o.Before(c)
	if known {
		c.Reason, c.Detail = why, detail
	}
	return known
}

// NewestKnown returns the index of the newest commit of which a dataset has a task; -1: there is
// none.
func NewestKnown(commits []git.Commit, exists func(task string) bool) int {
	return slices.IndexFunc(commits, func(c git.Commit) bool { return exists(newCandidate(c).Task) })
}

func newCandidate(from git.Commit) Candidate {
	subject := untrusted.Cut(untrusted.Line(from.Subject), 100)
	return Candidate{
		Commit: from.ID, Parent: from.Parent, Date: untrusted.Line(from.Date), Subject: subject, Reason: Promising,
		Task: taskName(subject, from.ID), Files: from.Changed, changes: from.Changes,
	}
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// taskName returns the name of a commit's task: words of its subject and the beginning of its id.
func taskName(subject, id string) string {
	words := strings.Trim(notInName.ReplaceAllString(strings.ToLower(subject), "-"), "-")
	if len(words) > 40 {
		words = strings.Trim(words[:40], "-")
	}
	return strings.TrimPrefix(words+"-"+id[:min(8, len(id))], "-")
}

// byNames drops a candidate for what the names and modes of its files tell.
func byNames(c *Candidate, from git.Commit, opts Options) {
	s := sortChanges(from.Changes)
	has := func(is func(git.Change) bool) bool { return slices.ContainsFunc(from.Changes, is) }
	mode := func(mode string) bool {
		return has(func(c git.Change) bool { return c.Mode == mode || c.OldMode == mode })
	}
	added := slices.DeleteFunc(slices.Clone(s[test]), git.Change.Removed)
	switch {
	case c.Parent == "":
		c.Reason = Root
	case opts.Exists != nil && opts.Exists(c.Task):
		c.Reason = Exists
	case from.TooLarge:
		c.drop(TooManyFiles, "more than git can compare in its memory")
	case from.Changed > MaxFiles:
		c.drop(TooManyFiles, "%d files", from.Changed)
	case has(func(c git.Change) bool { return odd(c.Name) || odd(c.OldName) }):
		c.Reason = OddName
	case mode("160000"):
		c.Reason = Submodule
	case mode("120000"):
		c.Reason = Link
	case len(from.Changes) > 0 && !has(func(c git.Change) bool { return !c.Moved() }):
		c.Reason = RenameOnly
	case len(s[code]) == 0:
		c.Reason = withoutCode(s)
	case len(added) == 0:
		c.Reason = NoTests
	case !slices.ContainsFunc(s[code], func(c git.Change) bool { return matches(opts.Paths, c.Name) }):
		c.Reason = Paths
	default:
		byTargets(c, added)
		languages := map[string]bool{}
		for _, change := range s[code] {
			languages[languageOf(change.Name)] = true
		}
		c.Languages = slices.Sorted(maps.Keys(languages))
	}
}

// withoutCode returns why no task is made of changes without code.
func withoutCode(s sorted) Reason {
	switch {
	case len(s[generated]) > 0:
		return Generated
	case len(s[vendored]) > 0:
		return Vendored
	case len(s[test]) > 0:
		return TestsOnly
	}
	return NoCode
}

// matches reports whether a name matches one of the globs, or is below a directory that does.
func matches(globs []string, name string) bool {
	if len(globs) == 0 {
		return true
	}
	for ; name != "."; name = path.Dir(name) {
		for _, glob := range globs {
			if ok, _ := path.Match(strings.TrimSuffix(glob, "/"), name); ok {
				return true
			}
		}
	}
	return false
}

// byTargets sets the test files that run and their runner.
func byTargets(c *Candidate, tests []git.Change) {
	others := map[string]bool{}
	for _, t := range tests {
		if !isTarget(t.Name) {
			others["data of tests"] = true
			continue
		}
		language := languageOf(t.Name)
		runner := runnerOf(language)
		if c.runner != "" && c.runner != runner {
			c.drop(Several, "%s and %s", c.language, language)
			return
		}
		c.language, c.runner = cmp.Or(c.language, language), runner
		c.tests = append(c.tests, t.Name)
	}
	if len(c.tests) == 0 {
		c.drop(NoRunner, "%s", strings.Join(slices.Sorted(maps.Keys(others)), ", "))
	}
	slices.Sort(c.tests)
}

// byContents drops the promising candidates for what their files have in them, and counts the lines
// of the others.
func byContents(ctx context.Context, repo *git.Local, candidates []Candidate) error {
	contents, err := read(ctx, repo, candidates)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range candidates {
		if c := &candidates[i]; c.Reason == Promising {
			group.Go(func() error { return c.byChange(ctx, repo, contents) })
		}
	}
	return group.Wait()
}

// byChange drops a candidate for what it changes in its files, whose contents are given by their
// ids.
func (c *Candidate) byChange(ctx context.Context, repo *git.Local, contents map[string][]byte) error {
	var inCode []string
	for _, change := range c.changes {
		text := contents[change.Blob]
		k := kindOf(change.Name)
		switch {
		case isBinary(text) || isBinary(contents[change.OldBlob]):
			c.drop(Binary, "%s", untrusted.Line(change.Name))
			return nil
		case k == test:
			continue
		case k == code && !saysGenerated(text):
			inCode = append(inCode, change.OldName, change.Name)
		}
		c.solution = append(c.solution, change.OldName, change.Name)
	}
	if len(inCode) == 0 {
		c.Reason = Generated
		return nil
	}
	at := repo.At(c.Commit)
	patch, err := at.Patch(ctx, c.Parent, false, unique(inCode)...)
	if err != nil {
		return err
	}
	lines, space := changedLines(patch)
	if c.Lines = lines; lines > MaxLines {
		c.drop(TooLarge, "%d lines of code", lines)
		return nil
	}
	if !space || slices.Contains(c.Languages, "python") { // where white space has a meaning
		return nil
	}
	blind, err := at.Patch(ctx, c.Parent, true, unique(inCode)...)
	if err != nil {
		return err
	}
	if lines, _ = changedLines(blind); lines == 0 {
		c.Reason = Formatting
	}
	return nil
}

// patch returns the change of what is no test.
func (c *Candidate) patch(ctx context.Context, repo *git.Local) ([]byte, error) {
	return repo.At(c.Commit).Patch(ctx, c.Parent, false, unique(c.solution)...)
}

// unique returns names sorted, each once.
func unique(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// read returns the contents of the files that the promising candidates change, before and after, by
// their ids. It drops candidates that are too large.
func read(ctx context.Context, repo *git.Local, candidates []Candidate) (map[string][]byte, error) {
	sizes, err := repo.Sizes(ctx, blobs(candidates))
	if err != nil {
		return nil, err
	}
	for i := range candidates {
		if c := &candidates[i]; c.Reason == Promising {
			c.bySize(sizes)
		}
	}
	return repo.Contents(ctx, blobs(candidates))
}

// blobs returns the ids of the contents that the promising candidates change, sorted.
func blobs(candidates []Candidate) []string {
	ids := map[string]bool{}
	for _, c := range candidates {
		if c.Reason == Promising {
			for id := range c.blobs() {
				ids[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// blobs returns the ids of the contents that the candidate changes, each with the name of a file.
func (c *Candidate) blobs() map[string]string {
	names := map[string]string{}
	for _, change := range c.changes {
		for _, id := range []string{change.OldBlob, change.Blob} {
			if strings.Trim(id, "0") != "" {
				names[id] = change.Name
			}
		}
	}
	return names
}

// bySize drops a candidate that is too large.
func (c *Candidate) bySize(sizes map[string]int64) {
	names := c.blobs()
	var sum int64
	for _, id := range slices.Sorted(maps.Keys(names)) {
		if sum += sizes[id]; sizes[id] > maxFile || sum > maxBytes {
			c.drop(TooLarge, "%s", untrusted.Line(names[id]))
			return
		}
	}
}

// changedLines counts the lines that a patch adds and removes. space reports whether what it adds
// and what it removes have the same characters but for white space, as in a change of formatting.
func changedLines(patch []byte) (n int, space bool) {
	var added, removed strings.Builder
	inHunk := false
	for line := range strings.Lines(string(patch)) {
		switch {
		case strings.HasPrefix(line, "diff --git "):
			inHunk = false
		case strings.HasPrefix(line, "@@ "):
			inHunk = true
		case inHunk && (line[0] == '+' || line[0] == '-'):
			n++
			to := &added
			if line[0] == '-' {
				to = &removed
			}
			for _, word := range strings.Fields(line[1:]) {
				to.WriteString(word)
			}
		}
	}
	return n, added.String() == removed.String()
}
