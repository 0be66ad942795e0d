package github

import gh "github.com/google/go-github/v66/github"

// ancestry is a part of a repository's history: each commit's parents, the first one first.
type ancestry map[string][]string

func (a ancestry) add(commit *gh.RepositoryCommit) {
	parents := make([]string, 0, len(commit.Parents))
	for _, parent := range commit.Parents {
		parents = append(parents, parent.GetSHA())
	}
	a[commit.GetSHA()] = parents
}

// ancestor is a commit, and how many steps it lies before another.
type ancestor struct {
	sha   string
	depth int
}

// from is the commit and its ancestors as far as they are known, the nearest first; among equally near ones the side
// of the branch itself (first parents) comes before what was merged into it.
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
