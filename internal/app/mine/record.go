package mine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/mine"
)

// RecordFile is the file of a dataset that says which commits were tried and are no task of it.
const RecordFile = "left-out.json"

const (
	maxRecord  = 8 << 20 // bytes of the record
	maxEntries = 10_000  // of the record; more are not kept
	maxDetail  = 200     // bytes of a detail
)

// remembered are the reasons that another run would find again. The others say something of this
// machine, or are found without a run.
var remembered = []mine.Reason{
	mine.BuildFailed, mine.TooSlow, mine.FailsAfter, mine.Unnamed, mine.NoNewTest, mine.BreaksTests, mine.Flaky, mine.NeedsNetwork, mine.Flawed,
}

// record is the content of RecordFile.
type record struct {
	SchemaVersion int                `json:"schema_version"`
	Commits       map[string]leftOut `json:"commits"` // by their ids
}

// leftOut is a commit of which no task was made.
type leftOut struct {
	Reason  mine.Reason `json:"reason"`
	Detail  string      `json:"detail"`
	Subject string      `json:"subject"`
	// Dockerfile is the digest of the Dockerfile of the task: with another one it is tried again.
	Dockerfile string `json:"dockerfile"`
}

// readRecord reads the record of the dataset. One that cannot be read is an error, as writing it
// would lose it. It may come with the repository, so it is bounded, and nothing of it is trusted.
func (m *mining) readRecord() error {
	m.record = record{SchemaVersion: 1, Commits: map[string]leftOut{}}
	data, err := nofollow.ReadFile(m.out(RecordFile), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var read record
	if err == nil {
		err = bounded.Unmarshal(data, &read)
	}
	if err == nil && read.SchemaVersion != 1 {
		err = errors.New("another version of rollout wrote it")
	}
	if err != nil {
		return host.Usagef("%s: %w (remove it to try all commits again)", host.Clean(filepath.Join(m.req.Out, RecordFile)), err)
	}
	for id, l := range read.Commits {
		if git.IsID(id) && slices.Contains(remembered, l.Reason) && len(m.record.Commits) < maxEntries {
			l.Detail, l.Subject = untrusted.Cut(host.Clean(l.Detail), maxDetail), untrusted.Cut(host.Clean(l.Subject), maxDetail)
			m.record.Commits[id] = l
		}
	}
	return nil
}

// before returns why no task was made of a candidate in an earlier run with the same Dockerfile.
func (m *mining) before(c *mine.Candidate) (why mine.Reason, detail string, known bool) {
	l, known := m.record.Commits[c.Commit]
	if !known || m.req.Retry || l.Dockerfile != m.digest(c) {
		return "", "", false
	}
	if l.Detail == "" {
		return l.Reason, "as before (--retry tries again)", true
	}
	return l.Reason, "as before (--retry tries again): " + l.Detail, true
}

// digest returns the digest of the Dockerfile of a candidate's task.
func (m *mining) digest(c *mine.Candidate) string {
	sum := sha256.Sum256([]byte(m.dockerfile(c)))
	return hex.EncodeToString(sum[:])
}

// writeRecord adds the commits that were left out in this run, and removes those that are proven.
func (m *mining) writeRecord() error {
	changed := false
	for i := range m.Candidates {
		c := &m.Candidates[i]
		_, was := m.record.Commits[c.Commit]
		switch {
		case c.Reason == mine.Proven && was:
			delete(m.record.Commits, c.Commit)
			changed = true
		case m.tried[c.Commit] && slices.Contains(remembered, c.Reason) && (was || len(m.record.Commits) < maxEntries):
			m.record.Commits[c.Commit] = leftOut{c.Reason, untrusted.Cut(c.Detail, maxDetail), c.Subject, m.digest(c)}
			changed = true
		}
	}
	if !changed {
		return nil
	}
	data, err := result.Marshal(m.record)
	if err == nil {
		err = os.MkdirAll(m.host.Path(m.req.Out), 0o755)
	}
	if err == nil {
		err = result.WriteFile(m.out(RecordFile), data)
	}
	if err != nil {
		return fmt.Errorf("write the commits that were left out: %w", err)
	}
	return nil
}
