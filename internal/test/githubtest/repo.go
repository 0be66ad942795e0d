package githubtest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// repo is one repository. The server's mu guards it.
type repo struct {
	name      string
	private   bool
	commits   map[string]commit
	branches  map[string]string // name to sha
	tags      map[string]string // name to sha of the commit
	trees     map[string][]TreeEntry
	pulls     []Pull
	issues    map[int]bool
	users     map[string]string // what they may do
	locked    map[int]bool
	comments  []*Comment
	workflows map[string]bool // file names
	runs      []Run
	artifacts []*artifact
}

type commit struct {
	sha     string
	parents []string
	tree    string
	order   int // listings have the newest first
	date    time.Time
}

// Pull is a pull request.
type Pull struct {
	Number     int
	HeadRepo   string // owner/name; "" is the repository itself
	HeadBranch string
	HeadSHA    string
	Base       string // a branch
	Merge      string // merge_commit_sha
	State      string // "" is open
	Merged     bool
	Title      string
	Body       string
}

// AddRepo adds a private repository ("owner/name") with an empty branch main.
func (s *Server) AddRepo(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[strings.ToLower(name)] = &repo{
		name: name, private: true, commits: map[string]commit{}, branches: map[string]string{}, tags: map[string]string{}, trees: map[string][]TreeEntry{}, issues: map[int]bool{},
		locked: map[int]bool{}, workflows: map[string]bool{},
	}
}

// Publish makes a repository public: everyone can read it.
func (s *Server) Publish(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustRepo(name).private = false
}

// mustRepo returns the repository and panics if there is none, which is an error of the test.
func (s *Server) mustRepo(name string) *repo {
	r := s.repos[strings.ToLower(name)]
	if r == nil {
		panic("githubtest: there is no repository " + name)
	}
	return r
}

// AddCommit adds a commit. Its parents must exist.
func (s *Server) AddCommit(name, sha string, parents ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(name)
	r.commits[sha] = commit{sha: sha, parents: parents, order: len(r.commits), date: s.now()}
}

// SetBranch moves a branch to a commit.
func (s *Server) SetBranch(name, branch, sha string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustRepo(name).branches[branch] = sha
}

// AddPull opens a pull request, or replaces the one with its number.
func (s *Server) AddPull(name string, p Pull) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(name)
	p.HeadRepo, p.State = cmp.Or(p.HeadRepo, r.name), cmp.Or(p.State, "open")
	r.pulls = slices.DeleteFunc(r.pulls, func(other Pull) bool { return other.Number == p.Number })
	r.pulls = append(r.pulls, p)
}

// AddIssue opens an issue.
func (s *Server) AddIssue(name string, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustRepo(name).issues[number] = true
}

func (q *request) getRepo([]string) reply {
	return ok(map[string]any{"full_name": q.repo.name, "private": q.repo.private})
}

// resolve returns the commit that a branch or hash names.
func (r *repo) resolve(name string) (string, bool) {
	if sha, ok := r.branches[name]; ok {
		return sha, true
	}
	_, ok := r.commits[name]
	return name, ok
}

// ancestors returns the commit and all its ancestors, with their distance.
func (r *repo) ancestors(sha string) map[string]int {
	depth := map[string]int{sha: 0}
	queue := []string{sha}
	for i := 0; i < len(queue); i++ {
		for _, parent := range r.commits[queue[i]].parents {
			if _, seen := depth[parent]; !seen {
				depth[parent] = depth[queue[i]] + 1
				queue = append(queue, parent)
			}
		}
	}
	return depth
}

// history returns the commit and all its ancestors, newest first.
func (r *repo) history(sha string) []commit {
	var out []commit
	for ancestor := range r.ancestors(sha) {
		out = append(out, r.commits[ancestor])
	}
	slices.SortFunc(out, func(a, b commit) int { return cmp.Compare(b.order, a.order) })
	return out
}

func (q *request) showCommit(c commit) map[string]any {
	parents := make([]map[string]any, 0, len(c.parents))
	for _, parent := range c.parents {
		parents = append(parents, map[string]any{"sha": parent})
	}
	return map[string]any{
		"sha": c.sha, "parents": parents,
		"commit":   map[string]any{"message": "commit " + c.sha, "committer": map[string]any{"date": c.date}},
		"html_url": fmt.Sprintf("https://github.com/%s/commit/%s", q.repo.name, c.sha),
	}
}

func (q *request) listCommits([]string) reply {
	if !q.may(q.access.Contents) {
		return q.denied()
	}
	sha, found := q.repo.resolve(cmp.Or(q.URL.Query().Get("sha"), "main"))
	if !found {
		return notFound()
	}
	return list(q, q.repo.history(sha), q.showCommit)
}

func (q *request) getCommit(args []string) reply {
	if !q.may(q.access.Contents) {
		return q.denied()
	}
	sha, found := q.repo.resolve(args[0])
	if !found {
		return problem(http.StatusUnprocessableEntity, "No commit found for SHA: "+args[0])
	}
	return ok(q.showCommit(q.repo.commits[sha]))
}

// compare answers base...head. The merge base is the newest common commit.
func (q *request) compare(args []string) reply {
	if !q.may(q.access.Contents) {
		return q.denied()
	}
	base, head, dots := strings.Cut(args[0], "...")
	from, okBase := q.repo.resolve(base)
	to, okHead := q.repo.resolve(head)
	if !dots || !okBase || !okHead {
		return notFound()
	}
	inBase := q.repo.ancestors(from)
	inHead := q.repo.ancestors(to)
	var ahead []commit
	var mergeBase *commit
	for _, c := range q.repo.history(to) {
		if _, both := inBase[c.sha]; !both {
			ahead = append(ahead, c)
		} else if mergeBase == nil {
			mergeBase = &c
		}
	}
	if mergeBase == nil {
		return problem(http.StatusNotFound, fmt.Sprintf("No common ancestor between %s and %s.", base, head))
	}
	behind := 0
	for sha := range inBase {
		if _, both := inHead[sha]; !both {
			behind++
		}
	}
	slices.Reverse(ahead) // oldest first
	commits, header := page(q, ahead)
	return reply{status: http.StatusOK, header: header, value: map[string]any{
		"merge_base_commit": q.showCommit(*mergeBase), "base_commit": q.showCommit(q.repo.commits[from]),
		"ahead_by": len(ahead), "behind_by": behind, "total_commits": len(ahead), "commits": shown(commits, q.showCommit),
		"files": []any{},
	}}
}

func (q *request) showPull(p Pull) map[string]any {
	head := map[string]any{"ref": p.HeadBranch, "sha": p.HeadSHA, "label": owner(p.HeadRepo) + ":" + p.HeadBranch, "repo": nil}
	if p.HeadRepo != "" {
		head["repo"] = map[string]any{"full_name": p.HeadRepo, "fork": p.HeadRepo != q.repo.name}
	}
	return map[string]any{
		"number": p.Number, "state": p.State, "merged": p.Merged, "title": p.Title, "body": p.Body, "head": head, "merge_commit_sha": p.Merge,
		"base":     map[string]any{"ref": p.Base, "repo": map[string]any{"full_name": q.repo.name}},
		"html_url": fmt.Sprintf("https://github.com/%s/pull/%d", q.repo.name, p.Number),
	}
}

func owner(repo string) string {
	before, _, _ := strings.Cut(repo, "/")
	return before
}

func (q *request) listPulls([]string) reply {
	if !q.may(q.access.Pulls) {
		return q.denied()
	}
	query := q.URL.Query()
	state, head, base := cmp.Or(query.Get("state"), "open"), query.Get("head"), query.Get("base")
	var out []Pull
	for _, p := range q.repo.pulls {
		// Like GitHub, ignore a head without an owner.
		headFits := !strings.Contains(head, ":") || head == owner(p.HeadRepo)+":"+p.HeadBranch
		if (state == "all" || p.State == state) && headFits && (base == "" || base == p.Base) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Pull) int { return cmp.Compare(b.Number, a.Number) })
	return list(q, out, q.showPull)
}

// pullsWith lists the pull requests with a commit that is not on their base.
func (q *request) pullsWith(args []string) reply {
	if !q.may(q.access.Pulls) {
		return q.denied()
	}
	if _, found := q.repo.commits[args[0]]; !found {
		return problem(http.StatusUnprocessableEntity, "No commit found for SHA: "+args[0])
	}
	var out []Pull
	for _, p := range q.repo.pulls {
		_, in := q.repo.ancestors(p.HeadSHA)[args[0]]
		base, known := q.repo.resolve(p.Base)
		_, landed := q.repo.ancestors(base)[args[0]]
		if in && !(known && landed) {
			out = append(out, p)
		}
	}
	return list(q, out, q.showPull)
}

func (q *request) getPull(args []string) reply {
	if !q.may(q.access.Pulls) {
		return q.denied()
	}
	for _, p := range q.repo.pulls {
		if strconv.Itoa(p.Number) == args[0] {
			return ok(q.showPull(p))
		}
	}
	return notFound()
}
