package git

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
)

// onHub matches ORG/NAME[@REF]. Source: Harbor's src/harbor/constants.py, ORG_NAME_PATTERN.
var onHub = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*(@[^@\s]+)?$`)

// Repository splits the address of a repository and a revision of it: git+https://HOST/PATH[@REF],
// the same with ssh or file, or ORG/NAME[@REF], which is on GitHub. rev is "" without one. ok is
// false for any other text.
func Repository(text string) (url, rev string, ok bool) {
	if onHub.MatchString(text) && !strings.HasSuffix(text, ".json") && !strings.Contains(text, "..") {
		name, rev, _ := strings.Cut(text, "@")
		return "https://github.com/" + name, rev, true
	}
	rest, ok := strings.CutPrefix(text, "git+")
	scheme, _, found := strings.Cut(rest, "://")
	if !ok || !found || scheme != "https" && scheme != "http" && scheme != "ssh" && scheme != "file" {
		return "", "", false
	}
	// A user of ssh comes before the path, a revision after it.
	if at := strings.LastIndexByte(rest, '@'); at > len(scheme+"://") && strings.Contains(rest[len(scheme+"://"):at], "/") {
		return rest[:at], rest[at+1:], true
	}
	return rest, "", true
}

// Files is Export for single files: it writes those files of a commit that keep selects, by their
// paths in the commit, into a directory. Problems of the commit are in the Directory that it
// returns.
func (g *Client) Files(ctx context.Context, r Remote, id, into, scratch string, keep func(path string) bool) (Directory, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.Timeout, errTimeout)
	defer cancel()
	var done Directory
	err := g.withCommit(ctx, r, id, scratch, func(s source) error {
		e := &export{source: s, into: filepath.Dir(into), names: []string{filepath.Base(into)}, directories: make([]directory, 1), keep: keep}
		if err := e.write(ctx); err != nil {
			return err
		}
		done = e.results()[0]
		return nil
	})
	return done, timeoutError(ctx, r, err)
}
