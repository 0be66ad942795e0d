package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/run/registry"
)

// errNoRepository means that a registry is a file or a URL.
var errNoRepository = errors.New("the registry is no repository")

// loadRepository reads the datasets of a repository (git.Repository). Of its files it fetches those
// that name datasets and tasks; the tasks are fetched when they are loaded, from the same commit.
func (s *Source) loadRepository(ctx context.Context, source string) (*registry.Registry, error) {
	url, rev, ok := git.Repository(source)
	if !ok {
		return nil, errNoRepository
	}
	problem := func(format string, args ...any) error {
		return diag.List{{File: "registry", Message: fmt.Sprintf(format, args...)}}
	}
	local := strings.HasPrefix(url, "file://") && s.Admit == nil
	remote, err := git.ParseRemote(url, "/", git.Trust(local))
	if err != nil {
		return nil, problem("the repository's address %v", err)
	}
	if err := git.CheckRevision(rev); err != nil {
		return nil, problem("%s: the revision after @ %v", remote, err)
	}
	if s.Cache == nil {
		return nil, fmt.Errorf("fetch datasets: %w", s.CacheErr)
	}
	commit, err := s.resolve(ctx, revision{remote, rev})
	if err != nil {
		return nil, err
	}
	repository := registry.Repository{Shown: remote.String() + " at " + commit[:12], URL: url, Commit: commit}
	if local {
		repository.Dir = "/" // so tasks may be in a repository of this machine, as the address is
	}
	if repository.Files, err = s.manifests(ctx, remote, commit); err != nil {
		return nil, err
	}
	return repository.Registry()
}

// manifests returns the files of a commit that say which datasets and tasks it has, by path.
func (s *Source) manifests(ctx context.Context, remote git.Remote, commit string) (map[string]string, error) {
	const part = "manifests"
	directory, err := s.Cache.Open(ctx, cache.Key{
		Kind: "git", Text: remote.ID() + "\x00" + commit, About: remote.String() + " at " + commit[:12],
	})
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	err = directory.Fill(ctx, []string{part}, func(ctx context.Context, draft string, _ []string) error {
		if err := os.MkdirAll(filepath.Join(draft, part), 0o755); err != nil {
			return err
		}
		s.notify("reading the datasets of %s at %s", remote, commit[:12])
		into := filepath.Join(draft, part, taskDirectory)
		found, err := s.Git.Files(ctx, remote, commit, into, filepath.Join(draft, "scratch"), registry.IsManifest)
		if err == nil && len(found.Problems) > 0 {
			err = diag.List{{File: remote.String(), Message: "its files cannot be read: " + found.Problems[0]}}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the datasets of %s: %w", remote, err)
	}
	return readManifests(filepath.Join(directory.Part(part), taskDirectory))
}

// readManifests reads the files below a directory, whose names and contents are hostile. A link is
// not followed.
func readManifests(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := nofollow.ReadFile(name, registry.MaxManifest)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, name)
		files[filepath.ToSlash(below)] = string(text)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return files, nil // the commit has no such file
	}
	return files, err
}
