package result

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	fastjson "github.com/go-json-experiment/json"

	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/nofollow"
)

// VerdictFormat is the version of the verdict.json that this program writes, and the newest that it
// reads. Format 1 has no rows in Comparison.
const VerdictFormat = 2

// MaxVerdictFile is the maximum size of a job's verdict.json, in bytes.
const MaxVerdictFile = 4 << 20

// Verdict is the verdict on a job, with the gate's decision G. The command that judges the job
// writes it to verdict.json in the job's directory.
type Verdict[G any] struct {
	Format int `json:"verdict_format"`
	// RolloutVersion is the version of Rollout that judged, such as v1.2.3; "" for a development
	// build.
	RolloutVersion string    `json:"rollout_version"`
	JudgedAt       time.Time `json:"judged_at"`
	// ResultDigest ("sha256:…") is that of the result.json that was judged. With another
	// result.json the verdict does not count.
	ResultDigest string `json:"result_digest"`
	// Passed: the job passed, so the exit code of the command was 0. It did not if the gate failed
	// or if results were missing.
	Passed     bool     `json:"passed"`
	Incomplete []string `json:"incomplete"` // a sentence for each kind of result that was missing; not nil
	// Baseline describes the job that this one was compared with, or the reason why there was none;
	// "": none was asked for.
	Baseline   string      `json:"baseline"`
	Comparison *Comparison `json:"comparison"` // null without a baseline
	Gate       G           `json:"gate"`
}

// ErrStaleVerdict is the error of a verdict.json that judges an earlier result.json of its job.
var ErrStaleVerdict = errors.New("it judges an earlier " + ResultFile)

// DigestOfResult returns the digest of the result.json in a job's directory, in the form of
// Verdict.ResultDigest. The error is fs.ErrNotExist if there is none. A link is not followed.
func DigestOfResult(dir string) (string, error) {
	f, err := nofollow.Open(filepath.Join(dir, ResultFile))
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, MaxJobFile)); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// WriteVerdict replaces the verdict.json in a job's directory atomically, and removes temporary
// files that a killed process left. It sets the format.
func WriteVerdict[G any](dir string, v Verdict[G]) error {
	v.Format = VerdictFormat
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries { // temporary files of a killed process
		if IsDraft(e) && strings.HasPrefix(e.Name(), draftPrefix+VerdictFile) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return WriteJSON(filepath.Join(dir, VerdictFile), v)
}

// ReadVerdict reads the verdict.json in a job's directory. The error is fs.ErrNotExist if there is
// none, and ErrStaleVerdict if it judges other results than the directory has. Unknown names are
// errors, too. A link is not followed.
func ReadVerdict[G any](dir string) (v Verdict[G], err error) {
	text, err := nofollow.ReadFile(filepath.Join(dir, VerdictFile), MaxVerdictFile)
	if err != nil {
		return v, err
	}
	var head struct {
		Format int `json:"verdict_format"`
	}
	if err := bounded.Unmarshal(text, &head); err != nil {
		return v, fmt.Errorf("%w: %w", ErrTorn, err)
	}
	switch {
	case head.Format < 1:
		return v, errors.New("it has no verdict_format")
	case head.Format > VerdictFormat:
		return v, fmt.Errorf("a newer version of Rollout wrote it (verdict_format %d; this version reads up to %d)", head.Format, VerdictFormat)
	}
	if err := bounded.UnmarshalStrict(text, &v, fastjson.RejectUnknownMembers(true)); err != nil {
		return Verdict[G]{}, err
	}
	digest, err := DigestOfResult(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && digest != v.ResultDigest {
		return Verdict[G]{}, ErrStaleVerdict
	}
	if err != nil {
		return Verdict[G]{}, err
	}
	return v, nil
}
