package comments

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// stamp orders comments by age.
type stamp struct {
	validAt time.Time
	runID   int64
	attempt int
}

// compare compares the numbers of two runs, which are those of their commits: an older run stays
// older even if its trials had to wait for machines, or if it is run again. Times decide within an
// attempt, and if one of the runs has no number.
func (s stamp) compare(o stamp) int {
	if s.runID != 0 && o.runID != 0 {
		return cmp.Or(cmp.Compare(s.runID, o.runID), cmp.Compare(s.attempt, o.attempt), s.validAt.Compare(o.validAt))
	}
	return cmp.Or(s.validAt.Compare(o.validAt), cmp.Compare(s.runID, o.runID), cmp.Compare(s.attempt, o.attempt))
}

// marker is the hidden first line of a comment: its job and its stamp.
type marker struct {
	job   string
	stamp stamp
}

var markerLine = regexp.MustCompile(
	`^<!-- rollout-comment job="([^"<>\s]*)" valid-at="([^"<>\s]*)" run="([0-9]{1,19})" attempt="([0-9]{1,9})" -->$`)

// String returns the marker as an HTML comment. It escapes the job's name so that it cannot end the
// comment or the quotes: the result has letters, digits and "%+_.~-", with no two hyphens in a row.
func (m marker) String() string {
	return fmt.Sprintf("<!-- rollout-comment job=%q valid-at=%q run=%q attempt=%q -->", escapeJob(m.job),
		m.stamp.validAt.UTC().Format(time.RFC3339Nano), strconv.FormatInt(m.stamp.runID, 10), strconv.Itoa(m.stamp.attempt))
}

func escapeJob(job string) string {
	return strings.ReplaceAll(url.QueryEscape(job), "--", "%2D%2D")
}

// parseMarker splits a comment's text into its marker and the rest. ok is false if it does not
// begin with one. A marker with an invalid time is older than every other.
func parseMarker(text string) (m marker, body string, ok bool) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	line, body, _ := strings.Cut(text, "\n")
	parts := markerLine.FindStringSubmatch(strings.TrimRight(line, " \t"))
	if parts == nil {
		return marker{}, "", false
	}
	job, err := url.QueryUnescape(parts[1])
	if err != nil {
		return marker{}, "", false
	}
	m.job = job
	validAt, err := time.Parse(time.RFC3339Nano, parts[2])
	if err != nil {
		return m, body, true
	}
	m.stamp.validAt = validAt
	m.stamp.runID, _ = strconv.ParseInt(parts[3], 10, 64) // only digits; too large a number becomes the maximum
	m.stamp.attempt, _ = strconv.Atoi(parts[4])           // only digits
	return m, body, true
}
