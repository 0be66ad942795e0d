package action

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/test/testenv"
)

// The files that a step creates as root are given to the owner of the workspace; no other owner
// changes.
func TestFilesAreHandedOver(t *testing.T) {
	testenv.NeedRoot(t, "to give files away")
	const uid, gid = 54321, 54322
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "theirs"), nil, 0o644))
	dir := t.TempDir()
	for _, name := range []string{"jobs/j/a/log", "reports/deep/junit.xml", "other/file", "jobs/j/hard", "jobs/j/kept"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, nil, 0o644))
	}
	must(t, os.Link(filepath.Join(dir, "jobs/j/hard"), filepath.Join(dir, "other/hard")))
	must(t, os.Symlink(outside, filepath.Join(dir, "jobs/j/link")))
	must(t, os.Symlink(outside, filepath.Join(dir, "away")))
	must(t, os.Lchown(filepath.Join(dir, "jobs/j/kept"), 7, 7))
	must(t, os.Chown(dir, uid, gid))
	var out warnings
	workspace := func(name string) (string, bool) { return dir, name == "GITHUB_WORKSPACE" }
	h := &host.Host{Paths: host.Paths{Dir: dir}, Output: &out, Variables: host.Variables{Getenv: workspace}}
	handOver(h, []string{"jobs", "reports/deep/junit.xml", "away/theirs", "../x", outside, "missing", "."})
	if out.n != 1 { // the link that leads out of the workspace
		t.Errorf("%d warnings", out.n)
	}
	for path, want := range map[string]uint32{
		"jobs": uid, "jobs/j": uid, "jobs/j/a/log": uid, "jobs/j/link": uid, "reports": uid, "reports/deep": uid, "reports/deep/junit.xml": uid,
		"other": 0, "other/file": 0, "other/hard": 0, "jobs/j/kept": 7, outside: 0, filepath.Join(outside, "theirs"): 0,
	} {
		full := path
		if !filepath.IsAbs(path) {
			full = filepath.Join(dir, path)
		}
		info, err := os.Lstat(full)
		must(t, err)
		if got := info.Sys().(*syscall.Stat_t).Uid; got != want {
			t.Errorf("%s belongs to %d, want %d", path, got, want)
		}
	}
}

// warnings is an Output that counts warnings and ignores everything else.
type warnings struct {
	host.Output
	n int
}

func (w *warnings) Warn(string) { w.n++ }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
