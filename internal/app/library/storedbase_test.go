package library

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
)

// storeVerdict writes the verdict of a job that was compared with another one of storedJob.
func storeVerdict(t *testing.T, dir, baseline string) {
	t.Helper()
	digest, err := result.DigestOfResult(dir)
	base := result.ComparedJob{JobName: baseline, StartedAt: time.Unix(1_800_000_000, 0).UTC()}
	side := &result.ComparedSide{Attempts: 1, Passed: 1}
	comparison := &result.Comparison{Base: base, Tasks: []result.ComparedTask{{Agent: "a", Dataset: "d", Task: "t", Change: result.Same, Base: side, Head: side}}}
	if err := errors.Join(err, result.WriteVerdict(dir, reporting.StoredVerdict{ResultDigest: digest, Gate: gate.Verdict{Outcome: gate.Pass}, Baseline: "main", Comparison: comparison})); err != nil {
		t.Fatal(err)
	}
}

// The job that a verdict was given against is found by name, start and plan, wherever it lies in
// the library.
func TestLibraryFindsTheBaselineOfAVerdict(t *testing.T) {
	for name, tc := range map[string]struct {
		base   string // its directory; "": it is not in the library
		single bool
	}{
		"next to it": {base: "main"}, "in a directory of artifacts": {base: "artifacts/main"}, "next to the only job": {base: "main", single: true}, "nowhere": {},
	} {
		t.Run(name, func(t *testing.T) {
			jobs := filepath.Join(t.TempDir(), "jobs")
			key := storedJob(t, filepath.Join(jobs, "change"), "change")
			storedJob(t, filepath.Join(jobs, "other"), "other")
			storeVerdict(t, filepath.Join(jobs, "change"), "baseline")
			path := jobs
			if tc.single {
				path = filepath.Join(jobs, "change")
			}
			l := libraryOf(t, path)
			before, err := l.Open(t.Context(), "change")
			if err != nil {
				t.Fatal(err)
			}
			version := before.Version()
			if err := before.Close(); err != nil {
				t.Fatal(err)
			}
			if tc.base != "" {
				storedJob(t, filepath.Join(jobs, tc.base), "baseline")
			}

			opened, err := l.Open(t.Context(), "change")
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			if changed := opened.Version() != version; changed != (tc.base != "") {
				t.Errorf("the version has changed: %t", changed)
			}
			in, err := opened.Input(t.Context())
			if err != nil || in.Verdict.Outcome != gate.Pass {
				t.Fatalf("%v, the verdict is %+v", err, in.Verdict)
			}
			files, dir := opened.Base()
			if tc.base == "" {
				if in.Diff != nil || in.Stored == nil || files != nil || dir != "" {
					t.Errorf("a baseline was found: %+v, %s", in.Diff, dir)
				}
				return
			}
			if want := filepath.Join(jobs, tc.base); dir != want || in.BaseDir != want || in.Diff == nil || in.Stored != nil {
				t.Fatalf("the baseline is %q and %q, %+v", dir, in.BaseDir, in.Diff)
			}
			if _, ok := in.BaseOf(*in.Trials[0].Unpack()); !ok {
				t.Error("the trial of the baseline is not found")
			}
			if _, err := fs.Stat(files, key.Dir()); err != nil {
				t.Error(err)
			}
		})
	}
}
