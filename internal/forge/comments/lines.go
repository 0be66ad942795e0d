package comments

import (
	"fmt"
	"strings"
	"time"
)

// The parts of the line about a run in progress.
const (
	goingCommit = "⏳ **Evaluating "
	goingRun    = " …** ("
	goingSince  = "since "
	goingRest   = ") Until that ends, this is the last verdict:"
)

// NoVerdict is the text for Over of a run that left no verdict.
const NoVerdict = "ended without a verdict"

// Going returns the line about a run in progress. commit and run (a link, or "") are Markdown.
func Going(commit, run string, since time.Time) string {
	if run != "" {
		run += ", "
	}
	return goingCommit + commit + goingRun + run + goingSince + since.UTC().Format("2006-01-02 15:04 UTC") + goingRest
}

// Over returns the line about a run that has ended. commit and run are as in Going.
func Over(commit, run, how string) string {
	if run != "" {
		run = " (" + run + ")"
	}
	return fmt.Sprintf("⏹️ The evaluation of %s %s.%s This is the verdict before it:", commit, how, run)
}

// lapsed converts a line of Going to the line of Over, for a run that has ended meanwhile. Users
// may have edited the line.
func lapsed(going string) string {
	commit, rest, ok := strings.Cut(strings.TrimPrefix(going, goingCommit), goingRun)
	if !ok || !strings.HasPrefix(going, goingCommit) {
		return Over("another commit", "", NoVerdict)
	}
	run, _, _ := strings.Cut(rest, goingSince)
	return Over(commit, strings.TrimSuffix(run, ", "), NoVerdict)
}
