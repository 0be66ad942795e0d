package github

import gh "github.com/google/go-github/v66/github"

// ancestry maps the known commits of a repository to their parents, first parent first.
type ancestry map[string][]string

func (a ancestry) add(commit *gh.RepositoryCommit) {
	parents := make([]string, 0, len(commit.Parents))
	for _, parent := range commit.Parents {
		parents = append(parents, parent.GetSHA())
	}
	a[commit.GetSHA()] = parents
}

// ancestor is a commit and its distance from a descendant.
type ancestor struct {
	sha   string
	depth int
}

// from returns the commit and its known ancestors, nearest first. At equal distance, commits on the
// branch itself (first parents) come before commits that were merged into it.
func (a ancestry) from(sha string) []ancestor {
	out := []ancestor{{sha, 0}}
	seen := map[string]bool{sha: true}
	for i := 0; i < len(out); i++ {
		for _, parent := range a[out[i].sha] {
			if !seen[parent] {
				seen[parent] = true
				out = append(out, ancestor{parent, out[i].depth + 1})
			}
		}
	}
	return out
}
