package merge

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/nofollow"
	"github.com/org/rollout-action/internal/result"
)

// digest is a SHA-256 digest of a file.
type digest = [sha256.Size]byte

// maxSums bounds a SHA256SUMS, in bytes: that of a million trials with long names.
const maxSums = 512 << 20

// readSums reads a shard's SHA256SUMS: each file's digest and its path, which is valid during the call. A shard of an older
// version has none; the error is fs.ErrNotExist then.
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

// scanWhole is bufio.ScanLines for a file whose last line has an end, too.
func scanWhole(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if atEOF && len(data) > 0 && data[len(data)-1] != '\n' && !bytes.Contains(data, []byte("\n")) {
		return 0, nil, errors.New("it is torn")
	}
	return bufio.ScanLines(data, atEOF)
}

// damaged says that a file is not what its shard's digests say.
func damaged(file string) error {
	return fmt.Errorf("%s: is not what %s beside the shard's plan says: it was damaged on its way, or edited: download the shard again", file, result.SumsFile)
}

// topSums are the digests of the files at the top of a shard's folder, by name; nil if the shard has no digests.
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

// checkTop compares a file at the top of the shard's folder with its digest. Without digests nothing is compared.
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

// checkPlan compares the shard's plan.json with its digest.
func (p *shardDir) checkPlan() error {
	text, err := nofollow.ReadFile(filepath.Join(p.dir, result.PlanFile), result.MaxJobFile)
	if err != nil {
		return err
	}
	return p.checkTop(result.PlanFile, text)
}

// trialSums are the digests of the trials' results in the shards, by index in the plan.
type trialSums struct {
	digests []digest
	has     []bool
	strict  map[int]bool // shards that have digests, so that each result has one
}

// readTrialSums reads the digests of all shards. A shard whose digests are damaged is refused.
func (m *merge) readTrialSums(groups map[string]*group) (*trialSums, error) {
	sums := &trialSums{strict: map[int]bool{}}
	for _, p := range m.parts {
		err := readSums(p.dir, func(sum digest, name []byte) error {
			if sums.digests == nil {
				sums.digests, sums.has = make([]digest, len(m.keys)), make([]bool, len(m.keys))
			}
			sums.strict[p.index] = true
			below, file := path.Split(string(name))
			if below == "" {
				return nil // see checkTop
			}
			below, folder := path.Split(strings.TrimSuffix(below, "/"))
			g := groups[strings.TrimSuffix(below, "/")]
			if file == result.ResultFile && g != nil {
				if i, ok := g.trials[folder]; ok && m.shardOf[i] == p.index {
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

// check compares a trial's result with its digest.
func (s *trialSums) check(i, shard int, text []byte, file string) error {
	if s == nil || !s.strict[shard] {
		return nil
	}
	if !s.has[i] || sha256.Sum256(text) != s.digests[i] {
		return damaged(file)
	}
	return nil
}
