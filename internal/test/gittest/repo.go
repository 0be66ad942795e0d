package gittest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Repo is a bare repository.
type Repo struct {
	Dir string
	tb  testing.TB
	n   int
}

// NewRepo creates an empty repository in dir. Its default branch is main. As on common hosts,
// clients may use filters and fetch any commit.
func NewRepo(tb testing.TB, dir string, initArgs ...string) *Repo {
	tb.Helper()
	r := &Repo{Dir: dir, tb: tb}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	r.Git("", append([]string{"init", "--quiet", "--bare", "--initial-branch=main"}, initArgs...)...)
	r.Config("uploadpack.allowFilter", "true")
	r.Config("uploadpack.allowAnySHA1InWant", "true")
	r.Config("http.receivepack", "false")
	return r
}

// Config sets a key in the repository's configuration.
func (r *Repo) Config(key, value string) { r.tb.Helper(); r.Git("", "config", key, value) }

// Git runs git in the repository and returns its output without surrounding white space.
func (r *Repo) Git(stdin string, args ...string) string {
	r.tb.Helper()
	cmd := exec.CommandContext(r.tb.Context(), "git", args...)
	cmd.Dir = r.Dir
	cmd.Env = append(clean(), "GIT_DIR="+r.Dir)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.tb.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// clean returns an environment in which git behaves the same on all machines.
func clean() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	return append(env,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
}

// Commit adds a commit with exactly the given files to a branch and returns its id. A name that
// ends in * is executable; one that ends in @ is a link.
func (r *Repo) Commit(branch string, files map[string]string) string {
	r.tb.Helper()
	r.n++
	var in strings.Builder
	message := fmt.Sprintf("commit %d", r.n)
	fmt.Fprintf(&in, "commit refs/heads/%s\ncommitter a <a@example.org> %d +0000\ndata %d\n%s\n", branch, 1767000000+r.n, len(message), message)
	if parent, err := r.try("rev-parse", "--verify", "--quiet", "refs/heads/"+branch); err == nil {
		fmt.Fprintf(&in, "from %s\n", parent)
	}
	in.WriteString("deleteall\n")
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		mode, path := "100644", name
		if p, ok := strings.CutSuffix(name, "*"); ok {
			mode, path = "100755", p
		} else if p, ok := strings.CutSuffix(name, "@"); ok {
			mode, path = "120000", p
		}
		fmt.Fprintf(&in, "M %s inline %s\ndata %d\n%s\n", mode, path, len(files[name]), files[name])
	}
	r.Git(in.String(), "fast-import", "--quiet", "--force")
	return r.Git("", "rev-parse", "refs/heads/"+branch)
}

func (r *Repo) try(args ...string) (string, error) {
	cmd := exec.CommandContext(r.tb.Context(), "git", args...)
	cmd.Dir = r.Dir
	cmd.Env = append(clean(), "GIT_DIR="+r.Dir)
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// Blob stores content and returns its id.
func (r *Repo) Blob(content string) string {
	r.tb.Helper()
	return r.Git(content, "hash-object", "-w", "--stdin")
}

// Tree stores a directory and returns its id. Each line is "MODE TYPE ID\tNAME"; names may be
// invalid.
func (r *Repo) Tree(lines ...string) string {
	r.tb.Helper()
	return r.Git(strings.Join(lines, "\x00")+"\x00", "mktree", "-z", "--missing")
}

// CommitTree commits a tree to a branch and returns the commit's id.
func (r *Repo) CommitTree(branch, tree string) string {
	r.tb.Helper()
	id := r.Git("hostile", "commit-tree", tree)
	r.Git("", "update-ref", "refs/heads/"+branch, id)
	return id
}

// Task returns the files of a small task in directory dir.
func Task(dir string) map[string]string {
	files := map[string]string{
		"task.toml":              "version = \"1.0\"\n\n[metadata]\ndifficulty = \"easy\"\ntags = [\"shell\"]\n",
		"instruction.md":         "Do " + filepath.Base(dir) + ".\n",
		"environment/Dockerfile": "FROM debian:bookworm\nWORKDIR /app\n",
		"solution/solve.sh*":     "echo done > /app/done\n",
		"tests/test.sh*":         "test -f /app/done && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
	}
	out := map[string]string{}
	for name, content := range files {
		out[dir+"/"+name] = content
	}
	return out
}

// Tasks returns the files of several tasks.
func Tasks(dirs ...string) map[string]string {
	out := map[string]string{}
	for _, dir := range dirs {
		for name, content := range Task(dir) {
			out[name] = content
		}
	}
	return out
}
