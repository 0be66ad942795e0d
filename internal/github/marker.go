package github

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// stamp says which of two comments is newer.
type stamp struct {
	validAt time.Time
	runID   int64
	attempt int
}

func (s stamp) compare(o stamp) int {
	return cmp.Or(s.validAt.Compare(o.validAt), cmp.Compare(s.runID, o.runID), cmp.Compare(s.attempt, o.attempt))
}

// marker is the hidden first line of a comment: whose job it is about, and how new it is.
type marker struct {
	job   string
	stamp stamp
}

var markerLine = regexp.MustCompile(
	`^<!-- rollout-comment job="([^"<>\s]*)" valid-at="([^"<>\s]*)" run="([0-9]{1,19})" attempt="([0-9]{1,9})" -->$`)

// String is the marker as an HTML comment. The job's name is escaped so that nothing in it can end the comment or the
// quotes: what is left of it are letters, digits and "%+_.~-", with no two hyphens in a row.
func (m marker) String() string {
	return fmt.Sprintf("<!-- rollout-comment job=%q valid-at=%q run=%q attempt=%q -->", escapeJob(m.job),
		m.stamp.validAt.UTC().Format(time.RFC3339Nano), strconv.FormatInt(m.stamp.runID, 10), strconv.Itoa(m.stamp.attempt))
}

func escapeJob(job string) string {
	return strings.ReplaceAll(url.QueryEscape(job), "--", "%2D%2D")
}

// parseMarker takes a comment's text apart into its marker and the rest. ok is false if it does not begin with one. A marker
// whose time cannot be read is older than every other.
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
	m.stamp.runID, _ = strconv.ParseInt(parts[3], 10, 64) // digits; one that is too large is the largest
	m.stamp.attempt, _ = strconv.Atoi(parts[4])           // digits
	return m, body, true
}
