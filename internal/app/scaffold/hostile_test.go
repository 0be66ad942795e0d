package scaffold_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/scaffold"
	"github.com/org/rollout-action/internal/test/apptest"
)

// tree returns the names of all files below a directory.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestWhatIsInTheWayIsRefusedAndNothingIsWritten(t *testing.T) {
	link := func(to, at string) func(*testing.T, *host.Host) {
		return func(t *testing.T, h *host.Host) {
			if err := errors.Join(os.MkdirAll(filepath.Dir(h.Path(at)), 0o755), os.Symlink(h.Path(to), h.Path(at))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		prepare func(*testing.T, *host.Host)
		dir     string
		want    string
	}{
		"a link of .github out of the repository":       {link("outside", "repo/.github"), "repo", "is behind a link that leads out of the repository"},
		"a link of the workflows out of the repository": {link("outside", "repo/.github/workflows"), "repo/sub", "is behind a link that leads out of the repository"},
		"a link of the tasks out of the repository":     {link("outside", "repo/evals"), "repo", "is behind a link that leads out of the repository"},
		"a broken link of the tasks":                    {link("nowhere", "repo/evals"), "repo", "is below a broken link"},
		"a .gitignore that is a link":                   {link("outside/file", "repo/.gitignore"), "repo", ".gitignore is not a plain file"},
		"a .gitignore that is a broken link":            {link("nowhere", "repo/.gitignore"), "repo", ".gitignore is not a plain file"},
		"a job file that is a broken link":              {link("nowhere", "repo/job.yaml"), "repo", "exists already"},
		"a file in place of the directory of tasks":     {func(t *testing.T, h *host.Host) { write(t, h, "repo/evals", "x") }, "repo", "a directory above it is a file"},
		"a file in place of the directory":              {func(t *testing.T, h *host.Host) { write(t, h, "repo/sub", "x") }, "repo/sub", "a directory above it is a file"},
		"a directory in place of .gitignore":            {func(t *testing.T, h *host.Host) { write(t, h, "repo/.gitignore/x", "x") }, "repo", ".gitignore is not a plain file"},
		"a .gitignore that is huge":                     {func(t *testing.T, h *host.Host) { write(t, h, "repo/.gitignore", strings.Repeat("x\n", 1<<20)) }, "repo", "is larger than 1 MiB"},
		"tasks with the name of the example":            {func(t *testing.T, h *host.Host) { write(t, h, "repo/evals/hello/task.toml", "x") }, "repo", "run the tasks that are there with --tasks"},
		"a directory of git": {func(t *testing.T, h *host.Host) {
			write(t, h, "repo/.git/objects/x", "")
			write(t, h, "repo/.git/refs/x", "")
		}, "repo/.git", "is in a directory of git"},
		"a pipe in place of .gitignore, which may block": {func(t *testing.T, h *host.Host) {
			if err := syscall.Mkfifo(h.Path("repo/.gitignore"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "repo", ".gitignore is not a plain file"},
	} {
		t.Run(name, func(t *testing.T) {
			h := withDocker(t)
			write(t, h, "repo/.git/HEAD", "")
			write(t, h, "outside/file", "precious")
			tc.prepare(t, h)
			before := tree(t, h.Path("."))
			done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: tc.dir, Provider: "fake"})
			apptest.Refused(t, err, tc.want)
			if after := tree(t, h.Path(".")); !slices.Equal(before, after) || len(done.Written) > 0 || read(t, h, "outside/file") != "precious" {
				t.Errorf("%v became %v; %v", before, after, done.Written)
			}
		})
	}
}

func TestALinkToADirectoryOfAnotherRepositoryWritesThere(t *testing.T) {
	h := withDocker(t)
	write(t, h, "other/.git/HEAD", "")
	write(t, h, "other/sub/keep", "")
	write(t, h, "repo/.git/HEAD", "")
	if err := os.Symlink(h.Path("other/sub"), h.Path("repo/link")); err != nil {
		t.Fatal(err)
	}
	done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "repo/link", Provider: "fake"})
	if err != nil || !slices.Contains(done.Written, "other/.github/workflows/rollout.yml") || !strings.Contains(read(t, h, "other/.github/workflows/rollout.yml"), "job: sub/job.yaml") {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestFilesThatCannotBeUsedAreNamedThoughNothingElseIsThere(t *testing.T) {
	h := withDocker(t)
	write(t, h, "repo/.git/HEAD", "")
	write(t, h, "repo/.gitignore", "CLAUDE.md\n")
	write(t, h, "repo/CLAUDE.md", "x")
	done, err := scaffold.Init(t.Context(), h, scaffold.InitRequest{Dir: "repo", Provider: "fake"})
	if err != nil || done.Setup.Any() || len(done.Setup.Left) != 1 || !strings.Contains(done.Setup.Left[0].Why, "is ignored by git") {
		t.Errorf("%+v, %v", done, err)
	}
}
