package mine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/run/mine"
)

// hostileConfig are the keys with which a repository's configuration has git run a command, or read
// files elsewhere.
var hostileConfig = []string{
	"core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass", "core.alternateRefsCommand", "core.gitProxy", "pager.log", "pager.diff",
	"diff.external", "diff.evil.command", "diff.evil.textconv", "merge.evil.driver", "interactive.diffFilter", "sequence.editor",
	"filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "uploadpack.packObjectsHook", "gpg.program", "gpg.ssh.program",
	"credential.helper", "alias.log", "alias.cat-file", "alias.ls-tree", "alias.rev-parse", "trailer.evil.command", "web.browser",
}

// hooks are the hooks that git knows.
var hooks = []string{
	"pre-commit", "post-commit", "post-checkout", "post-merge", "pre-auto-gc", "post-index-change", "reference-transaction", "fsmonitor-watchman",
	"post-rewrite", "pre-receive", "update", "post-update", "proc-receive", "push-to-checkout",
}

// No hook, filter, attribute or configuration of a repository that is mined has git run a command,
// and what it changes is seen as it is.
func TestNothingOfTheRepositoryRuns(t *testing.T) {
	r := newRepo(t)
	ran := filepath.Join(t.TempDir(), "ran")
	run := "#!/bin/sh\ntouch " + ran + "\ncat\n"
	r.commit("begin", "lib.sh", "echo 1\n", "lib_test.sh", "bash lib.sh\n", ".gitattributes", "* filter=evil diff=evil merge=evil text eol=crlf ident export-subst\n*.secret export-ignore\n", "a.secret", "$Id$ $Format:%H$\n")
	r.commit("change", "lib.sh", "echo 2\n", "lib_test.sh", "bash lib.sh # 2\n")
	r.put(".git/info/attributes", "* filter=evil diff=evil binary\n")
	r.put("evil", run)
	for _, name := range hooks {
		r.put(".git/hooks/"+name, run)
	}
	for _, key := range hostileConfig {
		r.git("config", "--", key, filepath.Join(r.top, "evil"))
	}
	for key, value := range map[string]string{
		"filter.evil.required": "true", "log.showSignature": "true", "log.mailmap": "true", "mailmap.file": "/etc/passwd", "core.attributesFile": filepath.Join(r.top, ".git/info/attributes"),
		"core.hooksPath": filepath.Join(r.top, ".git/hooks"), "diff.renames": "copies", "diff.noprefix": "true", "diff.ignoreSubmodules": "all", "core.quotePath": "false", "color.ui": "always",
		"remote.origin.url": "ext::" + filepath.Join(r.top, "evil"), "remote.origin.promisor": "true", "extensions.partialClone": "origin", "core.repositoryFormatVersion": "1", "protocol.ext.allow": "always",
	} {
		r.git("config", "--", key, value)
	}
	_ = os.Remove(ran)
	l, candidates := r.look(mine.Options{})
	if len(candidates) != 2 || candidates[0].Reason != mine.Promising || candidates[0].Lines != 2 {
		t.Fatalf("%+v; want a promising commit of two lines", candidates)
	}
	of := filepath.Join(r.write(l, candidates, mine.WriteOptions{}), candidates[0].Task)
	for name, want := range map[string]string{
		"environment/repo/lib.sh": "echo 1\n", "environment/repo/a.secret": "$Id$ $Format:%H$\n", "solution/_files/lib.sh": "echo 2\n", "tests/_files/lib_test.sh": "bash lib.sh # 2\n",
	} {
		if text, err := os.ReadFile(filepath.Join(of, name)); err != nil || string(text) != want {
			t.Errorf("%s is %q, %v; want %q", name, text, err, want)
		}
	}
	if patch, err := os.ReadFile(filepath.Join(of, "solution/change.patch")); err != nil || !strings.Contains(string(patch), "--- a/lib.sh\n+++ b/lib.sh\n@@ -1 +1 @@\n-echo 1\n+echo 2\n") {
		t.Errorf("the patch is %q, %v", patch, err)
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("a command of the repository ran")
	}
}

// Links in place of tests, code, a Dockerfile or a directory make no task, wherever they point, and
// those of the commit before are links in the environment, too: nothing is read or written through
// them.
func TestLinksOfTheRepository(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	must(t, os.WriteFile(secret, []byte("SECRET"), 0o600))
	r := newRepo(t)
	link := func(to, name string) {
		_ = os.RemoveAll(filepath.Join(r.top, name))
		must(t, os.Symlink(to, filepath.Join(r.top, name)))
	}
	r.commit("begin", "lib.sh", "echo 1\n", "lib_test.sh", "bash lib.sh\n", "data/x.txt", "x")
	link(secret, "Dockerfile")
	link(outside, "dir")
	link(secret, ".dockerignore")
	r.commit("links before")
	r.commit("change", "lib.sh", "echo 2\n", "lib_test.sh", "bash lib.sh # 2\n")
	link(secret, "lib_test.sh")
	r.commit("the test is a link", "lib.sh", "echo 3\n")
	link("lib.sh", "other_test.sh")
	r.commit("a new test is a link", "lib.sh", "echo 4\n")
	link(outside, "data")
	r.commit("a directory becomes a link", "lib.sh", "echo 5\n", "third_test.sh", "bash lib.sh\n")
	l, candidates := r.look(mine.Options{})
	for i, want := range []mine.Reason{mine.Link, mine.Link, mine.Link, mine.Promising, mine.Link, mine.Root} {
		if candidates[i].Reason != want {
			t.Errorf("%s: %s, want %s", candidates[i].Subject, candidates[i].Reason, want)
		}
	}
	of := filepath.Join(r.write(l, candidates, mine.WriteOptions{}), candidates[3].Task)
	files, _ := contents(t, of)
	for name, text := range files {
		if strings.Contains(text, "SECRET") {
			t.Errorf("%s has what a link points to", name)
		}
	}
	if files["environment/repo/Dockerfile"] != "-> "+secret || files["environment/repo/dir"] != "-> "+outside || !strings.HasPrefix(files["environment/Dockerfile"], "# Proposed by rollout mine.") {
		t.Errorf("the environment has %q", files)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "SECRET" {
		t.Errorf("the file outside is %q, %v", text, err)
	}
}

// A change of the repository's Dockerfile is a part of the solution. No image is built with it,
// neither as it was nor as it is then: the proposed Dockerfile is used, or the user's.
func TestDockerfileThatTheChangeTouches(t *testing.T) {
	r := newRepo(t)
	r.commit("begin", "lib.sh", "echo 1\n", "lib_test.sh", "bash lib.sh\n", "Dockerfile", "FROM evil:1\n", "environment/Dockerfile", "FROM evil:1\n")
	r.commit("change", "lib.sh", "echo 2\n", "lib_test.sh", "bash lib.sh # 2\n", "Dockerfile", "FROM evil:2\n", "environment/Dockerfile", "FROM evil:2\n", "Dockerfile.dockerignore", "repo\n", ".dockerignore", "repo\n")
	l, candidates := r.look(mine.Options{})
	for of, opts := range map[string]mine.WriteOptions{"FROM debian:": {}, "FROM mine": {Dockerfile: []byte("FROM mine\n")}} {
		files, _ := contents(t, filepath.Join(r.write(l, candidates, opts), candidates[0].Task))
		if got := files["environment/Dockerfile"]; !strings.Contains(got, of) || strings.Contains(got, "evil") {
			t.Errorf("the Dockerfile is %q, want %s", got, of)
		}
		if files["environment/repo/Dockerfile"] != "FROM evil:1\n" || files["solution/_files/Dockerfile"] != "FROM evil:2\n" || files["environment/.dockerignore"] != "" {
			t.Errorf("the task has %q", files)
		}
	}
}
