package merge

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/job"
)

// digest is a SHA-256 digest of a file.
type digest = [sha256.Size]byte

// maxSums limits a SHA256SUMS, in bytes: a million trials with long names fit.
const maxSums = 512 << 20

// readSums reads a shard's SHA256SUMS and calls each with every file's digest and path; the path is
// valid during the call. The error is fs.ErrNotExist if there is none: older versions did not write
// it.
func readSums(dir string, each func(sum digest, name []byte) error) error {
	f, err := nofollow.Open(filepath.Join(dir, result.SumsFile))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > maxSums {
		return fmt.Errorf("it is larger than %d bytes", maxSums)
	}
	lines := bufio.NewScanner(f)
	lines.Split(scanWhole)
	for lines.Scan() {
		var sum digest
		hexed, name, ok := bytes.Cut(lines.Bytes(), []byte("  "))
		if n, err := hex.Decode(sum[:], hexed[:min(len(hexed), hex.EncodedLen(len(sum)))]); !ok || err != nil || n != len(sum) || hex.EncodedLen(n) != len(hexed) {
			return fmt.Errorf("it has a line that is no digest of a file")
		}
		if err := each(sum, name); err != nil {
			return err
		}
	}
	return lines.Err()
}

// scanWhole is like bufio.ScanLines, and fails if the last line has no line break.
func scanWhole(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if atEOF && len(data) > 0 && data[len(data)-1] != '\n' && !bytes.Contains(data, []byte("\n")) {
		return 0, nil, errors.New("it is torn")
	}
	return bufio.ScanLines(data, atEOF)
}

// damaged returns the error of a file that does not have the digest in its shard's SHA256SUMS.
func damaged(file string) error {
	return fmt.Errorf("%s: does not have the checksum in the shard's %s: it was damaged on its way or edited: download the shard again", file, result.SumsFile)
}

// topSums returns the digests of the files at the top of a shard's directory, by name, and nil if
// the shard has no digests.
func (p *shardDir) topSums() (map[string]digest, error) {
	top := map[string]digest{}
	err := readSums(p.dir, func(sum digest, name []byte) error {
		if !bytes.ContainsRune(name, '/') {
			top[string(name)] = sum
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return top, err
}

// hasSums reports whether the shard has digests. They are written before its result.json, so only a
// run that has not ended, or an earlier version, leaves none.
func (p *shardDir) hasSums() bool {
	_, err := os.Lstat(filepath.Join(p.dir, result.SumsFile))
	return err == nil
}

// checkTop returns an error if a file at the top of the shard's directory does not have its digest.
// A shard without digests is not checked.
func (p *shardDir) checkTop(name string, text []byte) error {
	top, err := p.topSums()
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w: download the shard again", filepath.Join(p.label, result.SumsFile), err)
	case top != nil && top[name] != sha256.Sum256(text):
		return damaged(filepath.Join(p.label, name))
	}
	return nil
}

// checkPlan is checkTop for the shard's plan.json.
func (p *shardDir) checkPlan() error {
	text, err := nofollow.ReadFile(filepath.Join(p.dir, result.PlanFile), result.MaxJobFile)
	if err != nil {
		return err
	}
	return p.checkTop(result.PlanFile, text)
}

// Verify compares the files of a shard that has ended with its checksums. changed is a sentence
// about one that differs, or about missing checksums that its run wrote; unverified says that
// earlier versions wrote none. Both are "" if all is well, or if the shard has not ended.
func Verify(dir, label string) (changed, unverified string) {
	head, err := result.ReadPlanHead(dir)
	if err != nil || head.Shard == nil {
		return "", ""
	}
	if state, _ := stateOf(dir); state == unfinished {
		return "", ""
	}
	err = readSums(dir, func(sum digest, name []byte) error {
		file := filepath.FromSlash(string(name))
		if !filepath.IsLocal(file) {
			return fmt.Errorf("it names %q, which is not in the shard", name)
		}
		text, err := nofollow.ReadFile(filepath.Join(dir, file), result.MaxJobFile)
		if err == nil && sha256.Sum256(text) == sum {
			return nil
		}
		return damaged(filepath.Join(label, file))
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) && head.Checksums:
		return untrusted.Line(noSums(label)), ""
	case errors.Is(err, fs.ErrNotExist):
		return "", untrusted.Line(unchecked(label))
	case err != nil:
		return untrusted.Line(fmt.Sprintf("%s: %v", filepath.Join(label, result.SumsFile), err)), ""
	}
	return "", ""
}

// noSums says that a shard has lost its checksums.
func noSums(label string) string {
	return fmt.Sprintf("%s has no %s, although its %s says that it was written, so a changed result would not be noticed", label, result.SumsFile, result.PlanFile)
}

// unchecked says that a shard of an earlier version has no checksums.
func unchecked(label string) string {
	return fmt.Sprintf("%s has no %s, as shards of earlier versions, so its results were not verified: a changed one would not be noticed", label, result.SumsFile)
}

// trialSums holds the digests of the trials' results in the shards, by index in the plan.
type trialSums struct {
	digests []digest
	has     []bool
	strict  map[int]bool // these shards have digests, so each of their results must have one
}

// readTrialSums returns the digests of all shards. It refuses a shard whose digests are damaged.
func (m *merge) readTrialSums(groups map[string]*group) (*trialSums, error) {
	sums := &trialSums{strict: map[int]bool{}}
	for _, p := range m.parts {
		err := readSums(p.dir, func(sum digest, name []byte) error {
			if sums.digests == nil {
				sums.digests, sums.has = make([]digest, m.keys.Len()), make([]bool, m.keys.Len())
			}
			sums.strict[p.index] = true
			below, file := path.Split(string(name))
			if below == "" {
				return nil // see checkTop
			}
			below, trial := path.Split(strings.TrimSuffix(below, "/"))
			g := groups[strings.TrimSuffix(below, "/")]
			if file == result.ResultFile && g != nil {
				if i, ok := g.find(trial); ok && m.shardOf[i] == p.index {
					sums.digests[i], sums.has[i] = sum, true
					return nil
				}
			}
			return fmt.Errorf("it has a digest of %q, which is no result of the shard", name)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, job.Refuse("%s: %v: download the shard again", filepath.Join(p.label, result.SumsFile), err)
		}
	}
	return sums, nil
}

// check returns an error if a trial's result does not have its digest.
func (s *trialSums) check(i, shard int, text []byte, file string) error {
	if s == nil || !s.strict[shard] {
		return nil
	}
	if !s.has[i] || sha256.Sum256(text) != s.digests[i] {
		return damaged(file)
	}
	return nil
}
