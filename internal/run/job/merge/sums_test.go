package merge

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/test/testenv"
)

// judged returns the files that determine a job's outcome: each trial's result, the plan and the
// configuration.
func (s *scene) judged(dir string) map[string]string {
	s.Helper()
	files := s.Content(dir)
	maps.DeleteFunc(files, func(name, _ string) bool {
		return filepath.Base(name) != result.ResultFile && name != result.PlanFile && name != result.ConfigFile
	})
	return files
}

// flips merges with each of many bits of a file flipped, once each. The merge has to fail, naming
// one of the files, or to give the same result as with the true file.
func (s *scene) flips(file, named string, bits int) (found int) {
	s.Helper()
	s.Check(os.RemoveAll(s.In("jobs")))
	if merged := s.mustMerge(); len(merged.Incomplete)+len(merged.Notes) > 0 {
		s.Fatalf("it is not whole before: %q %q", merged.Incomplete, merged.Notes)
	}
	want := s.judged(s.In("jobs", "nightly"))
	intact := []byte(s.Read(file))
	for n := range bits {
		bit := int(uint64(n) * uint64(8*len(intact)) / uint64(bits))
		data := bytes.Clone(intact)
		data[bit/8] ^= 1 << (bit % 8)
		s.Check(os.WriteFile(file, data, 0o644))
		s.Check(os.RemoveAll(s.In("jobs")))
		merged, err := s.merge()
		said := strings.Join(merged.Incomplete, "\n")
		if err != nil {
			said = err.Error()
		}
		for _, unreadable := range merged.Tree.Unreadable {
			said += "\n" + unreadable.Error()
		}
		if said != "" && (!strings.Contains(said, named) || !strings.Contains(said, "again")) {
			s.Errorf("bit %d: it does not name %s, or not say what to do: %s", bit, named, said)
		}
		if said != "" {
			found++
		}
		if err != nil {
			continue
		}
		got := s.judged(s.In("jobs", "nightly"))
		for name := range want {
			// A shard that cannot be used counts as missing: its damaged parts are reported, not
			// used.
			unread := said != "" && (got[name] == "" || strings.Contains(said, filepath.Dir(name)) || name == result.ResultFile)
			if got[name] != want[name] && !unread {
				s.Errorf("bit %d: %s is\n%s\nand was\n%s\n(%s)", bit, name, got[name], want[name], said)
			}
		}
		for _, t := range merged.Tree.Trials {
			if i := slices.Index(job.Keys(s.Specs), t.Key()); !sameResult(*t.Unpack(), s.Outcome(i).Trial) {
				s.Errorf("bit %d: the merge believes %+v", bit, t)
			}
		}
		if s.Failed() {
			break
		}
	}
	s.Check(os.WriteFile(file, intact, 0o644))
	return found
}

func sameResult(a, b result.Trial) bool {
	x, errX := result.Marshal(a)
	y, errY := result.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func TestFlippedBitsInArchivesNeverChangeAReward(t *testing.T) {
	for _, kind := range []string{".tar", ".tgz", ".zip"} {
		t.Run(kind, func(t *testing.T) {
			s := newScene(t)
			s.Specs = s.Specs[:6]
			s.Shards(2)
			packed := s.tarred(s.In("shards", "2"), "")
			switch kind {
			case ".tgz":
				packed = gzipped(packed)
			case ".zip":
				packed = s.zipped(s.Content(s.In("shards", "2")))
			}
			s.Check(os.RemoveAll(s.In("shards", "2")))
			s.Write(s.In("shards", "2"+kind), string(packed))
			bits := testenv.Times(20, 60)
			if found := s.flips(s.In("shards", "2"+kind), "shards/2"+kind, bits); found < bits/10 {
				t.Errorf("only %d of %d flipped bits were found: this test has lost its point", found, bits)
			}
		})
	}
}

func TestFlippedBitsInShardsNeverChangeAReward(t *testing.T) {
	s := newScene(t)
	s.Specs = s.Specs[:6]
	s.Shards(2)
	for _, name := range []string{
		result.PlanFile, result.ConfigFile, result.ResultFile, result.SumsFile,
		filepath.Join(filepath.FromSlash(s.Specs[0].Key.Dir()), result.ResultFile),
	} {
		for _, shard := range []string{"1", "2"} {
			file := s.In("shards", shard, name)
			if _, err := os.Stat(file); err != nil {
				continue
			}
			found := s.flips(file, "shards/"+shard, 20)
			t.Logf("%s of shard %s: %d of 20 flipped bits were found", name, shard, found)
			base := shard == "1" // whose plan and configuration are the job's
			if base && name != result.ResultFile && found < 17 {
				t.Errorf("%s: only %d of 20 flipped bits were found", name, found)
			}
		}
	}
}

// A changed reward is not believed only because the digests were removed with it.
func TestRemovedDigestsAreNoticed(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	want := s.mustMerge()
	dir := s.In("shards", "1")
	s.Check(os.Remove(filepath.Join(dir, result.SumsFile)))
	const removed = "not merged: shards/1 has no SHA256SUMS, although its plan.json says that it was written"
	got := s.mustMerge()
	s.says(got.Notes, removed)
	s.says(got.Incomplete, "shard 1/2 is missing")
	s.says(got.Incomplete, removed, "download it again")
	if got.Job.CompletedTrials >= want.Job.CompletedTrials {
		t.Errorf("%d of %d results were believed", got.Job.CompletedTrials, want.Job.CompletedTrials)
	}
	s.Check(os.RemoveAll(s.In("shards", "2")))
	s.refused(nil, removed)

	// One that did not end has none yet.
	s.Check(os.Remove(filepath.Join(dir, result.ResultFile)))
	got = s.mustMerge()
	s.says(got.Incomplete, "shard 1/2 did not finish")
	if len(got.Notes) > 0 {
		t.Errorf("got %q", got.Notes)
	}
}

func TestShardsOfEarlierVersionsAreMergedWithANote(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	want := s.mustMerge()
	s.unchecked(s.In("shards", "1"))
	got := s.mustMerge()
	s.says(got.Notes, "shards/1 has no SHA256SUMS, as shards of earlier versions, so its results were not verified")
	if len(got.Incomplete) > 0 || len(got.Notes) != 1 || got.Job.CompletedTrials != want.Job.CompletedTrials {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// unchecked makes a shard one of an earlier version, without digests.
func (s *scene) unchecked(dir string) {
	s.Helper()
	file := filepath.Join(dir, result.PlanFile)
	text := s.Read(file)
	old := strings.Replace(text, "  \"checksums\": true,\n", "", 1)
	if old == text {
		s.Fatalf("%s does not say that there are checksums:\n%s", file, text)
	}
	s.Write(file, old)
	s.Check(os.Remove(filepath.Join(dir, result.SumsFile)))
}

// The digests are those that sha256sum -c checks.
func TestOnlyShardsHaveDigests(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	s.RunShard(s.In("whole"), 0, 0, nil)
	s.mustMerge()
	for _, dir := range []string{s.In("whole"), s.In("jobs", "nightly")} {
		if _, err := os.Stat(filepath.Join(dir, result.SumsFile)); err == nil {
			t.Errorf("%s has digests", dir)
		}
	}
	for _, shard := range []string{"1", "2"} {
		dir := s.In("shards", shard)
		want := []string{}
		for name, text := range s.judged(dir) {
			want = append(want, fmt.Sprintf("%x  %s", sha256.Sum256([]byte(text)), filepath.ToSlash(name)))
		}
		got := strings.Split(strings.TrimSuffix(s.Read(filepath.Join(dir, result.SumsFile)), "\n"), "\n")
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("shard %s has\n%q\nwant\n%q", shard, got, want)
		}
	}
}
