package git

import (
	"context"
	"crypto/sha1" //nolint:gosec // names objects, as git does
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strings"
)

// Parents returns the parents of a commit, first parent first, as the commit object lists them. In
// a shallow clone it also returns parents that are not in the clone. objects is the repository's
// objects directory.
//
// It reads only the repository's objects, through a separate empty repository: configuration, hooks
// and grafts have no effect. It checks the object against the commit's id.
func (g *Client) Parents(ctx context.Context, objects, commit string) ([]string, error) {
	own, err := os.MkdirTemp("", "rollout-git-")
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", safe(commit), err)
	}
	defer os.RemoveAll(own)
	format, digest := "sha1", sha1.New() //nolint:gosec // as above
	if len(commit) == hex.EncodedLen(sha256.Size) {
		format, digest = "sha256", sha256.New()
	}
	remote := Remote{shown: "in " + safe(objects)}
	if _, err := g.run(ctx, call{dir: own, remote: remote, args: []string{"init", "--quiet", "--bare", "--template=", "--object-format=" + format}}); err != nil {
		return nil, err
	}
	text, err := g.run(ctx, call{
		dir: own, remote: remote, args: []string{"cat-file", "commit", commit},
		env: []string{"GIT_DIR=" + own, "GIT_OBJECT_DIRECTORY=" + objects, "GIT_NO_REPLACE_OBJECTS=1"},
	})
	if err != nil {
		return nil, err
	}
	if named(digest, "commit", text) != commit {
		return nil, fmt.Errorf("read commit %s in %s: %w", safe(commit), safe(filepath.Dir(objects)), errDamaged)
	}
	return parentsIn(string(text)), nil
}

var errDamaged = errors.New("the object does not match its id")

// named returns the id that git gives an object.
func named(digest hash.Hash, kind string, content []byte) string {
	fmt.Fprintf(digest, "%s %d\x00", kind, len(content))
	digest.Write(content)
	return hex.EncodeToString(digest.Sum(nil))
}

// parentsIn returns the parents in the text of a commit. Source: git's
// Documentation/gitformat-signature.txt and commit.c.
func parentsIn(text string) []string {
	parents := []string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			break // the message begins
		}
		if id, ok := strings.CutPrefix(line, "parent "); ok {
			parents = append(parents, id)
		}
	}
	return parents
}
