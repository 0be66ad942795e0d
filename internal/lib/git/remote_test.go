package git_test

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/git"
)

func TestParseRemote(t *testing.T) {
	for _, tc := range []struct {
		url, shown, problem string
		trust               git.Trust
	}{
		{url: "https://github.com/org/tasks.git", shown: "https://github.com/org/tasks.git"},
		{url: "https://user:secret@example.org/tasks.git", shown: "https://example.org/tasks.git"},
		{url: "https://secret@example.org:8443/tasks.git", shown: "https://example.org:8443/tasks.git"},
		{url: "ssh://git@example.org/tasks.git", shown: "ssh://git@example.org/tasks.git"},
		{url: "git@github.com:org/tasks.git", shown: "git@github.com:org/tasks.git"},
		{url: "git://example.org/tasks.git", shown: "git://example.org/tasks.git"},
		{url: "file:///srv/tasks.git", shown: "file:///srv/tasks.git", trust: git.AllowLocal},
		{url: "../tasks", shown: "../tasks", trust: git.AllowLocal},

		{url: "", problem: "is empty"},
		{url: "ext::sh -c touch% /tmp/x", problem: `uses git's transport "ext"`},
		{url: "ext::sh -c touch% /tmp/x", problem: `uses git's transport "ext"`, trust: git.AllowLocal},
		{url: "fd::17", problem: `uses git's transport "fd"`, trust: git.AllowLocal},
		{url: "ext://x", problem: `uses the transport "ext"`, trust: git.AllowLocal},
		{url: "ftp://example.org/x", problem: `uses the transport "ftp"`},
		{url: "file:///etc", problem: "is a directory of this machine"},
		{url: "/etc", problem: "is a directory of this machine"},
		{url: "../x", problem: "is a directory of this machine"},
		{url: "--upload-pack=touch", problem: "begins with a dash", trust: git.AllowLocal},
		{url: "ssh://-oProxyCommand=touch/x", problem: "has no proper host"},
		{url: "ssh://-oProxyCommand=touch@example.org/x", problem: "has no proper host"},
		{url: "ssh://example.org/-x", problem: "has no proper host"},
		{url: "-oProxyCommand=touch:x", problem: "begins with a dash"},
		{url: "git@-oProxyCommand=touch:x", problem: "is a directory of this machine"},
		{url: "git@example.org:-x", problem: "is a directory of this machine"},
		{url: "https:///x", problem: "has no proper host"},
		{url: "https://example.org/a\nb", problem: "contains characters"},
		{url: "https://example.org/" + strings.Repeat("a", 3000), problem: "is longer than"},
	} {
		r, err := git.ParseRemote(tc.url, "/srv", tc.trust)
		if tc.problem != "" {
			if err == nil || !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("%q: %v, want %s", tc.url, err, tc.problem)
			}
			continue
		}
		if err != nil || r.String() != tc.shown || strings.Contains(r.ID(), "secret") {
			t.Errorf("%q: %s, %v, want %s", tc.url, r, err, tc.shown)
		}
	}
}

func TestCleanPath(t *testing.T) {
	for _, tc := range []struct{ path, want, problem string }{
		{"tasks/a", "tasks/a", ""}, {"./tasks//a/", "tasks/a", ""}, {".", "", ""}, {"", "", ""}, {"-x/--y", "-x/--y", ""},
		{"/etc", "", "begins with a slash"}, {"../a", "", `the name ".."`}, {"a/../../b", "", `the name ".."`},
		{"a/.git/b", "", ".git"}, {"a/.GIT", "", ".git"}, {"a\nb", "", "control characters"}, {"a\xff", "", "not UTF-8"},
		{strings.Repeat("a", 300), "", "more than 255"}, {strings.Repeat("a/", 3000), "", "longer than"},
	} {
		got, err := git.CleanPath(tc.path)
		if got != tc.want || (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%q: %q, %v", tc.path, got, err)
		}
	}
}

// Two repositories may look equal when cut, but must not share a cache entry.
func TestIDIsNotCut(t *testing.T) {
	long := strings.Repeat("x", 600)
	for _, pair := range [][2]string{
		{"https://example.org/" + long + "/a", "https://example.org/" + long + "/b"},
		{"git@example.org:org/tasks", "git@example.org:org/\u200btasks"},
	} {
		var ids [2]string
		for i, url := range pair {
			r, err := git.ParseRemote(url, "", git.RemoteOnly)
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = r.ID()
		}
		if ids[0] == ids[1] {
			t.Errorf("both are %q", ids[0])
		}
	}
}
