package cli

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const lfsPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

// The copy of a checkout that is compared with a trusted commit knows which of its files git-lfs
// keeps, as the checkout does.
func TestPointersOfLFSInACheckedCopyAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		says  string // "": it runs
	}{
		"of a task":            {map[string]string{".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "evals/one/tests/a.bin": lfsPointer}, "has files that are only pointers of git-lfs: tests/a.bin"},
		"of an agent":          {map[string]string{".gitattributes": "*.bin filter=lfs\n", "agent/deep/a.bin": lfsPointer}, "these files are only pointers of git-lfs: agent/deep/a.bin"},
		"by nearer attributes": {map[string]string{"agent/.gitattributes": "*.bin filter=lfs\n", "agent/deep/a.bin": lfsPointer}, "these files are only pointers of git-lfs: agent/deep/a.bin"},
		"kept by nothing":      {map[string]string{".gitattributes": "*.bin -text\n", "agent/deep/a.bin": lfsPointer}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCheckout(t, newHistory(t))
			c.write(t, map[string]string{"agent/deep/run.sh": "true\n"})
			c.write(t, test.files)
			c.commit("main")
			c.github.Mirror(t, "acme/widgets", c.dir)
			c.env["GITHUB_SHA"] = c.commits["main"]
			bringsAlong(c, "agent/deep")
			c.about("pull_request_target", forkPull)
			code := c.main(t, "action")
			said := strings.Join(strings.Fields(c.stdout.String()+c.stderr.String()), " ")
			if (code == 0) != (test.says == "") || !strings.Contains(said, test.says) {
				t.Errorf("exit code %d, and it does not say %q: %s", code, test.says, said)
			}
		})
	}
}

// commitPointer returns a checkout whose agent has the file agent/a.bin, a pointer of git-lfs in
// the commit main.
func commitPointer(t *testing.T, pointer string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		".gitattributes":       "*.bin filter=lfs\n",
		"job.yaml":             "environment: {type: fake}\nagents: [{name: a, execute: 'true', files: [{source: agent, target: /agent}]}]\ntasks: [hello]\n",
		"agent/a.bin":          pointer,
		"hello/task.toml":      "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\n",
		"hello/instruction.md": "Do it.\n",
		"hello/tests/test.sh":  "echo 1 >/logs/verifier/reward.txt\n",
	} {
		write(t, dir, name, text)
	}
	commitAll(t, dir)
	return dir
}

// An agent of a commit whose files are pointers would be another agent.
func TestPointersOfLFSInAnEarlierCommitAreRefused(t *testing.T) {
	dir := commitPointer(t, lfsPointer)
	write(t, dir, "agent/a.bin", "the true file")
	o := inDir(t.Context(), t, dir, "run", "job.yaml", "--name", "one", "--against", "main")
	if said := strings.Join(strings.Fields(o.stderr), " "); o.code == 0 || !strings.Contains(said, "--against main: commit ") || !strings.Contains(said, "only pointers of git-lfs, which keeps no files for them here: agent/a.bin; run git lfs fetch origin ") {
		t.Errorf("exit code %d: %s", o.code, said)
	}
	if _, err := os.Stat(filepath.Join(dir, "jobs")); err == nil {
		t.Error("something was run")
	}
}

// The files that git-lfs keeps in the repository stand in for the pointers of an earlier commit, if
// they are the ones that the pointers name.
func TestPointersOfLFSInAnEarlierCommitAreReplacedFromTheRepository(t *testing.T) {
	const content = "the agent's model\n"
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	pointer := fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", sum, len(content))
	for name, test := range map[string]struct {
		keep func(path string) error
		says string // "": it runs
	}{
		"the file":        {func(path string) error { return os.WriteFile(path, []byte(content), 0o444) }, ""},
		"another content": {func(path string) error { return os.WriteFile(path, []byte("the agent's m0del\n"), 0o444) }, "a broken file here for agent/a.bin: the content does not match the pointer"},
		"less":            {func(path string) error { return os.WriteFile(path, []byte(content[:4]), 0o444) }, "a broken file here for agent/a.bin: the content does not match the pointer"},
		"more":            {func(path string) error { return os.WriteFile(path, []byte(content+"more"), 0o444) }, "a broken file here for agent/a.bin: it is larger than allowed"},
		"a pipe":          {func(path string) error { return syscall.Mkfifo(path, 0o644) }, "a broken file here for agent/a.bin: "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := commitPointer(t, pointer)
			write(t, dir, "agent/a.bin", content)
			kept := filepath.Join(dir, ".git", "lfs", "objects", sum[:2], sum[2:4], sum)
			if err := errors.Join(os.MkdirAll(filepath.Dir(kept), 0o755), test.keep(kept)); err != nil {
				t.Fatal(err)
			}
			o := inDir(t.Context(), t, dir, "run", "job.yaml", "--name", "one", "--against", "main")
			said := strings.Join(strings.Fields(o.stdout+o.stderr), " ")
			if (o.code == 0) != (test.says == "") || !strings.Contains(said, test.says) {
				t.Fatalf("exit code %d, and it does not say %q: %s", o.code, test.says, said)
			}
			// The checkout has the same files, so the agents are the same.
			if test.says == "" && !strings.Contains(said, "nothing differs from main") {
				t.Errorf("%s", said)
			}
		})
	}
}

// Outside of a checkout, nothing says what a file is that looks like a pointer.
func TestLFSPointersOutsideOfACheckoutAreWarnings(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"job.yaml":             "environment: {type: fake}\nagents: [{name: a, execute: 'true', files: [{source: agent, target: /agent}]}]\ntasks: [hello]\n",
		"agent/a.bin":          lfsPointer,
		"hello/task.toml":      "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\n",
		"hello/instruction.md": "Do it.\n",
		"hello/tests/test.sh":  "echo 1 >/logs/verifier/reward.txt\n",
		"hello/tests/b.bin":    lfsPointer,
	} {
		write(t, dir, name, text)
	}
	for _, inCheckout := range []bool{false, true} {
		if inCheckout {
			commitAll(t, dir)
		}
		o := inDir(t.Context(), t, dir, "validate", "job.yaml")
		said := strings.Join(strings.Fields(o.stdout+o.stderr), " ")
		for _, text := range []string{"files of agent \"a\" look like pointers of git-lfs: agent/a.bin", "hello: warning: has files that look like pointers of git-lfs: tests/b.bin"} {
			if o.code != 0 || strings.Contains(said, text) == inCheckout {
				t.Errorf("in a checkout: %v, exit code %d, %q: %s", inCheckout, o.code, text, said)
			}
		}
	}
}
