package git_test

import (
	"testing"

	"github.com/org/rollout-action/internal/lib/git"
)

func TestAddressesOfRepositories(t *testing.T) {
	for text, want := range map[string][2]string{
		"org/name":                             {"https://github.com/org/name", ""},
		"org/name@v1.2":                        {"https://github.com/org/name", "v1.2"},
		"org/na.me@feature/x":                  {"https://github.com/org/na.me", "feature/x"},
		"git+https://example.org/a/b.git":      {"https://example.org/a/b.git", ""},
		"git+https://example.org/a/b.git@main": {"https://example.org/a/b.git", "main"},
		"git+ssh://git@example.org/a/b":        {"ssh://git@example.org/a/b", ""},
		"git+ssh://git@example.org/a/b@main":   {"ssh://git@example.org/a/b", "main"},
		"git+file:///tmp/x@" + "1234567":       {"file:///tmp/x", "1234567"},
		"https://example.org/registry.json":    {},
		"dir/registry.json":                    {},
		"../registry":                          {},
		"./org/name":                           {},
		"a/b/c":                                {},
		"org/..":                               {},
		"-org/name":                            {},
		"git+ext::sh -c true":                  {},
		"git+ext://x/y":                        {},
		"registry.json":                        {},
		"org/name@":                            {},
		"org/name@two words":                   {},
		"https://github.com/org/name":          {},
		"":                                     {},
	} {
		url, rev, ok := git.Repository(text)
		if url != want[0] || rev != want[1] || ok != (want[0] != "") {
			t.Errorf("%q: %q, %q, %v", text, url, rev, ok)
		}
	}
}
