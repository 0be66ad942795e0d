package githubtest

import (
	"cmp"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// TreeEntry is one entry of a git tree, as "git ls-tree" prints it.
type TreeEntry struct{ Mode, Type, ID, Name string }

// maxTree is the maximum number of entries in the listing of a tree. Source: docs.github.com, "Get
// a tree".
const maxTree = 100_000

// Mirror copies a git repository's commits, trees, branches and tags. Branches below hidden/ are
// treated like those of forks: the server knows their commits, but not the branches.
func (s *Server) Mirror(t testing.TB, name, dir string) {
	t.Helper()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(name)
	for line := range strings.Lines(git("log", "--all", "--topo-order", "--reverse", "--format=%H %T %P")) {
		ids := strings.Fields(line)
		if _, known := r.commits[ids[0]]; known {
			continue
		}
		r.commits[ids[0]] = commit{sha: ids[0], tree: ids[1], parents: ids[2:], order: len(r.commits), date: s.now()}
		trees, found := map[string]string{".": ids[1]}, map[string][]TreeEntry{".": {}}
		for entry := range strings.SplitSeq(git("ls-tree", "-z", "-r", "-t", ids[0]), "\x00") {
			what, name, ok := strings.Cut(entry, "\t")
			if !ok {
				continue
			}
			f := strings.Fields(what)
			if f[1] == "tree" {
				trees[name], found[name] = f[2], []TreeEntry{}
			}
			found[path.Dir(name)] = append(found[path.Dir(name)], TreeEntry{f[0], f[1], f[2], path.Base(name)})
		}
		for dir, id := range trees {
			r.trees[id] = found[dir]
		}
	}
	for line := range strings.Lines(git("for-each-ref", "--format=%(refname) %(objectname) %(*objectname)")) {
		ref := strings.Fields(line)
		if branch, ok := strings.CutPrefix(ref[0], "refs/heads/"); ok && !strings.HasPrefix(branch, "hidden/") {
			r.branches[branch] = ref[1]
		}
		if tag, ok := strings.CutPrefix(ref[0], "refs/tags/"); ok {
			r.tags[tag] = ref[len(ref)-1]
		}
	}
}

func (q *request) branchesAt(args []string) reply {
	if !q.may(q.access.Contents) {
		return q.denied()
	}
	if _, known := q.repo.commits[args[0]]; !known {
		return problem(http.StatusUnprocessableEntity, "No commit found for SHA: "+args[0])
	}
	at := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(q.repo.branches)) {
		if q.repo.branches[name] == args[0] {
			at = append(at, map[string]any{"name": name, "commit": map[string]any{"sha": args[0]}})
		}
	}
	return ok(at)
}

func (q *request) getGitCommit(args []string) reply {
	if !q.may(q.access.Contents) {
		return q.denied()
	}
	c, known := q.repo.commits[args[0]]
	if !known {
		return notFound()
	}
	return ok(map[string]any{"sha": c.sha, "tree": map[string]any{"sha": c.tree}})
}

func (q *request) getTree(args []string) reply {
	if !q.may(q.access.Contents) {
		return q.denied()
	}
	if _, known := q.repo.trees[args[0]]; !known {
		return notFound()
	}
	all := []map[string]any{}
	var add func(tree, below string)
	add = func(tree, below string) {
		for _, e := range q.repo.trees[tree] {
			all = append(all, map[string]any{"path": path.Join(below, e.Name), "mode": e.Mode, "type": e.Type, "sha": e.ID})
			if e.Type == "tree" && q.URL.Query().Has("recursive") {
				add(e.ID, path.Join(below, e.Name))
			}
		}
	}
	add(args[0], "")
	limit := cmp.Or(q.server.TreeLimit, maxTree)
	return ok(map[string]any{"sha": args[0], "tree": all[:min(len(all), limit)], "truncated": len(all) > limit})
}

func (q *request) listTags([]string) reply {
	if !q.may(q.access.Contents) {
		return q.denied()
	}
	return list(q, slices.Sorted(maps.Keys(q.repo.tags)), func(name string) map[string]any {
		return map[string]any{"name": name, "commit": map[string]any{"sha": q.repo.tags[name]}}
	})
}
