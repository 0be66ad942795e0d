package dataset

import (
	"maps"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/test/gittest"
)

const manifestText = `# made by Harbor
[dataset]
name = "org/bench"
description = "two tasks"
[[dataset.authors]]
name = "somebody"

[[tasks]]
name = "org/one"
digest = "sha256:d05ca7b207b35a878fb63996e2863cd52689ef79fcff988df3645d4c7eea39e2"
[[tasks]]
name = "org/two"
digest = "sha256:f1be2d2ac321f0c9742136ffdb0bfe5bac04d1163f0ba728b93a310741d785d1"
[[tasks]]
name = "org/one"
digest = "sha256:d05ca7b207b35a878fb63996e2863cd52689ef79fcff988df3645d4c7eea39e2"
[[tasks]]
name = "other/three"
digest = "sha256:941dbf8467122f04bb014e4734980e5b8afc6c387eb9e41b001d6ea93b73e1eb"
`

// hub commits a repository with a dataset.toml: the directory of one task is named by its
// task.toml, that of another one by itself; a third is only on Harbor's servers.
func (s *scene) hub(manifest string) (id string) {
	files := gittest.Tasks("tasks/first", "tasks/two")
	files["tasks/first/task.toml"] += "\n[task]\nname = \"org/one\"\n"
	maps.Copy(files, map[string]string{"dataset.toml": manifest, "large": strings.Repeat("x", 1<<20)})
	return s.repo.Commit("main", files)
}

func TestRepositoryWithADatasetFile(t *testing.T) {
	s := newScene(t)
	id := s.hub(manifestText)
	s.repo.Git("", "tag", "v1", id)
	s.hub(strings.Replace(manifestText, "org/two", "org/gone", 1)) // the branch has moved on
	src := s.source()
	ref := s.ref("org/bench")
	ref.Registry = "git+" + s.server.URL + "/tasks.git@v1"
	ref.Select.Exclude = []string{"three"}
	set := s.load(src, ref)[0]
	if len(set.Tasks) != 2 || set.Name != "org/bench" || set.Format != "harbor" {
		t.Fatalf("%+v", set)
	}
	for i, want := range []struct{ name, path string }{{"one", "tasks/first"}, {"two", "tasks/two"}} {
		task := set.Tasks[i]
		if task.Name != want.name || task.Origin.Path != want.path || task.Origin.Commit != id || task.Err() != nil {
			t.Errorf("%s at %s: %v, %v", task.Name, task.Origin.Path, task.Origin.Commit, task.Err())
		}
	}
	ref.Select.Exclude = nil
	_, _, err := src.Load(t.Context(), []Ref{ref})
	if err == nil || !strings.Contains(err.Error(), `task "three" of org/bench: it is not in the repository, so only Harbor's servers have it: leave it out with exclude_tasks`) ||
		!strings.Contains(err.Error(), "harbor download other/three") {
		t.Errorf("%v", err)
	}
	before := s.uploads()
	ref.Select.Exclude = []string{"three"}
	s.server.Close()
	s.load(s.source(), ref) // from the cache
	if s.uploads() != before {
		t.Error("files of the cache were fetched again")
	}
}

func TestDigestsOfADatasetFile(t *testing.T) {
	s := newScene(t)
	s.hub(strings.Replace(manifestText, "f1be2d2a", "\\u001b1be2d2a", 1))
	ref := s.ref("org/bench")
	ref.Registry = "git+" + s.server.URL + "/tasks.git"
	ref.Select.Exclude = []string{"three"}
	set := s.load(s.source(), ref)[0]
	if err := set.Tasks[0].Err(); err != nil {
		t.Errorf("the digest of Harbor: %v", err)
	}
	err := set.Tasks[1].Err()
	if err == nil || !strings.Contains(err.Error(), `dataset.toml gives the digest "sha256:be2d2a`) || strings.Contains(err.Error(), "\x1b") ||
		!strings.Contains(err.Error(), `the digest of its files is "sha256:f1be2d2ac321f0c9742136ffdb0bfe5bac04d1163f0ba728b93a310741d785d1" (name a commit`) {
		t.Errorf("another digest: %v", err)
	}
}

func TestWrongRepositories(t *testing.T) {
	for name, tc := range map[string]struct{ manifest, source, want string }{
		"no dataset.toml of Harbor's": {"[general]\nx = 1\n", "", "has no dataset.toml of a dataset"},
		"no TOML":                     {"[dataset", "", "cannot be read"},
		"an odd revision":             {manifestText, "@--upload-pack=x", "the revision after @"},
		"no such revision":            {manifestText, "@nowhere", "nowhere"},
		"a task with two digests":     {manifestText + "[[tasks]]\nname = \"org/one\"\ndigest = \"sha256:1\"\n", "", `lists the task "org/one" with the digests "sha256:d05c`},
		"a path outside":              {"tasks = [{path = \"../../etc\"}]\n[dataset]\nname = \"org/bench\"\n", "", `has the name ".." in it`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.hub(tc.manifest)
			ref := s.ref("org/bench")
			ref.Registry = "git+" + s.server.URL + "/tasks.git" + tc.source
			if _, _, err := s.source().Load(t.Context(), []Ref{ref}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRepositoryOfThisMachineNeedsTrust(t *testing.T) {
	s := newScene(t)
	s.hub(manifestText[:strings.LastIndex(manifestText, "[[tasks]]")])
	ref := s.ref("org/bench")
	ref.Registry = "git+file://" + s.repo.Dir
	src := s.source()
	if set := s.load(src, ref)[0]; len(set.Tasks) != 2 || set.Tasks[0].Err() != nil {
		t.Errorf("%+v", set)
	}
	src.Admit = func(path string) (string, error) { return path, nil }
	if _, _, err := src.Load(t.Context(), []Ref{ref}); err == nil || !strings.Contains(err.Error(), "the repository's address") {
		t.Errorf("%v", err)
	}
	src.Admit, src.Cache, src.CacheErr = nil, nil, cache.ErrNoRoot
	if _, _, err := src.Load(t.Context(), []Ref{ref}); err == nil {
		t.Error("it was read without a cache")
	}
}
