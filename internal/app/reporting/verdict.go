package reporting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// StoredVerdict is the verdict stored in a job's directory. Texts are untrusted.
type StoredVerdict = result.Verdict[gate.Verdict]

// ReadVerdict returns the stored verdict of a job, or nil. note says why an existing one does not
// count; "" if there is none.
func ReadVerdict(paths host.Paths, dir string) (v *StoredVerdict, note string) {
	stored, err := result.ReadVerdict[gate.Verdict](paths.Path(dir))
	switch outcome := stored.Gate.Outcome; {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ""
	case err == nil && outcome != gate.Pass && outcome != gate.Fail && outcome != gate.Inconclusive:
		err = fmt.Errorf("it has the outcome %q", outcome)
	}
	if err != nil {
		return nil, fmt.Sprintf("%s is not used, because %s: rollout report %s judges again", filepath.Join(host.Clean(dir), result.VerdictFile), untrusted.Cut(host.Clean(err.Error()), 300), host.QuotedPath(dir))
	}
	return &stored, ""
}

// OutcomeOf returns the outcome of a job by its verdict, which is fail if results were missing, and
// the reason.
func OutcomeOf(v *StoredVerdict) (gate.Outcome, string) {
	if len(v.Incomplete) > 0 && v.Gate.Outcome != gate.Fail {
		return gate.Fail, "results are missing: " + v.Incomplete[0]
	}
	return v.Gate.Outcome, v.Gate.Reason
}

// sameVerdict reports whether two verdicts are equal except for their time.
func sameVerdict(a, b StoredVerdict) bool {
	a.JudgedAt, b.JudgedAt, b.Format = time.Time{}, time.Time{}, a.Format
	one, err := result.Marshal(a)
	other, otherErr := result.Marshal(b)
	return err == nil && otherErr == nil && bytes.Equal(one, other)
}

// storeVerdict stores the verdict in the job's directory, unless it does not cover the whole job. A
// verdict without a baseline does not replace one with a baseline on the same results.
func (f *finishing) storeVerdict(ctx context.Context, version string) {
	in := f.in
	if f.end.ReadOnly || f.digest == "" || Unjudged(in.Plan) || in.Plan.ProvesTasks || f.outcome(ctx) == host.Stopped {
		return
	}
	before, _ := ReadVerdict(f.Paths, in.Dir)
	if before != nil && before.Comparison != nil && f.opts.Baseline == "" {
		return
	}
	v := StoredVerdict{
		RolloutVersion: version, JudgedAt: result.Stamp(f.now()), ResultDigest: f.digest,
		Passed: in.Passed(), Incomplete: append([]string{}, in.Incomplete...), Comparison: result.ComparisonOf(in.Diff), Gate: in.Verdict,
	}
	if f.opts.Compares() {
		v.Baseline = in.Baseline
	}
	if before != nil && sameVerdict(*before, v) {
		return // it is not rewritten, so its time stays
	}
	err := result.WriteVerdict(f.Path(in.Dir), v)
	if !f.end.Ran && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		return // a job may be looked at where nothing can be written
	}
	if errors.Is(err, fs.ErrNotExist) {
		return // another process is also judging the job and has removed the temporary file
	}
	if err != nil {
		host.Warnf(f.out, "the verdict cannot be kept, so rollout ls and rollout history do not know it: %v", err)
	}
}
