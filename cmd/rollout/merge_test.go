//go:build linux

package main

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/internal/test/testenv"
)

// everything returns the contents of all files below a directory, by path; directories end with a
// slash.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		must(t, err)
		below, err := filepath.Rel(dir, path)
		must(t, err)
		if e.IsDir() {
			files[below+"/"] = ""
			return nil
		}
		text, err := os.ReadFile(path)
		if e.Name() == result.VerdictFile {
			text = judgedAt.ReplaceAll(text, nil) // differs between merges
		}
		files[below] = string(text)
		return err
	}))
	return files
}

var judgedAt = regexp.MustCompile(`"judged_at": "[^"]*"`)

// TestKilledMergesLoseNothing kills and repeats merges until they complete, and compares each with
// an undisturbed one, file by file.
func TestKilledMergesLoseNothing(t *testing.T) {
	testenv.Long(t, "merges are killed many times")
	t.Parallel()
	const shards = 3
	j := steadyJob(t, fake.Name, 12, "0.001")
	for i := 1; i <= shards; i++ {
		j.start(t, "run", "job.yaml", "--shard", fmt.Sprintf("%d/%d", i, shards)).exit(t)
	}
	intact := everything(t, filepath.Join(j.dir, "jobs"))
	random := seed(t)
	for _, tc := range []struct {
		name  string
		flags []string
		again bool // over an earlier merge
	}{
		{name: "moved", flags: []string{"--move"}},
		{name: "moved over an earlier merge", flags: []string{"--move"}, again: true},
		{name: "linked", again: true},
	} {
		random := rand.New(rand.NewPCG(random.Uint64(), 0))
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ready := t.TempDir()
			must(t, os.CopyFS(filepath.Join(ready, "shards"), os.DirFS(filepath.Join(j.dir, "jobs"))))
			if tc.again {
				start(t, ready, "merge", "shards", "--output", "jobs/steady").exit(t)
			}
			// copied returns a copy of the directory with the shards.
			copied := func(t *testing.T) string {
				dir := t.TempDir()
				must(t, os.CopyFS(dir, os.DirFS(ready)))
				return dir
			}
			args := append([]string{"merge", "shards", "--output", "jobs/steady"}, tc.flags...)
			calm := copied(t)
			began := time.Now()
			calmRun := start(t, calm, args...)
			code := calmRun.exit(t)
			took := time.Since(began)
			want := everything(t, filepath.Join(calm, "jobs"))
			results := 0
			for name := range want {
				if strings.HasSuffix(name, "/"+result.ResultFile) {
					results++
				}
			}
			if results != 3*2*12+1 {
				t.Fatalf("the undisturbed merge has %d results:\n%s", results, calmRun.output)
			}
			left := everything(t, filepath.Join(calm, "shards"))

			hit, early, rounds, wanted := 0, 0, 0, testenv.Times(9, 34)
			for ; hit < wanted || early == hit && hit < 10*wanted; rounds++ {
				dir := copied(t)
				for within := took; ; within += took / 4 { // a machine that has become slower also finishes
					r := start(t, dir, args...)
					r.killWithin(time.Duration(random.Int64N(int64(within)))) // any moment is as good as another
					got := r.cmd.ProcessState.ExitCode()
					if got == signalled {
						hit++
						if _, err := os.Stat(filepath.Join(dir, "jobs")); err != nil {
							early++
						}
						continue
					}
					if got != code {
						t.Fatalf("after kills it ends with %d, undisturbed with %d:\n%s", got, code, r.output)
					}
					break
				}
				if got := everything(t, filepath.Join(dir, "jobs")); !maps.Equal(got, want) {
					for name := range want {
						if _, ok := got[name]; !ok {
							t.Errorf("%s is missing", name)
						} else if got[name] != want[name] {
							t.Errorf("%s is\n%s\nwant\n%s", name, got[name], want[name])
						}
					}
					for name := range got {
						if _, ok := want[name]; !ok {
							t.Errorf("%s is left", name)
						}
					}
					t.FailNow()
				}
				if got := everything(t, filepath.Join(dir, "shards")); !maps.Equal(got, left) {
					t.Fatalf("the shards have %d files and directories, after an undisturbed merge %d", len(got), len(left))
				}
				must(t, os.RemoveAll(dir))
			}
			if len(tc.flags) == 0 && !maps.Equal(left, intact) {
				t.Error("linking has changed the shards")
			}
			t.Logf("%d kills of %d merges, %d of them before anything was written", hit, rounds, early)
			if early == hit {
				t.Error("this test has lost its point: no kill has hit a merge at work")
			}
		})
	}
}
