package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxComment is the maximum length of a comment, in characters.
const maxComment = 65536

// Comment is a comment on a pull request or issue.
type Comment struct {
	ID        int64
	Number    int // of the pull request or issue
	Author    string
	Body      string
	CreatedAt time.Time
	UpdatedAt time.Time
	Edits     int
}

// AddComment adds a comment by author and returns its id.
func (s *Server) AddComment(name string, number int, author, body string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.comment(s.mustRepo(name), number, author, body).ID
}

func (s *Server) comment(r *repo, number int, author, body string) *Comment {
	now := s.now()
	c := &Comment{ID: s.nextID(), Number: number, Author: author, Body: body, CreatedAt: now, UpdatedAt: now}
	r.comments = append(r.comments, c)
	return c
}

// Comments returns the comments on a pull request or issue, oldest first.
func (s *Server) Comments(name string, number int) []Comment {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Comment
	for _, c := range s.mustRepo(name).on(number) {
		out = append(out, *c)
	}
	return out
}

// Lock locks the conversation: then only users with write access can comment.
func (s *Server) Lock(name string, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustRepo(name).locked[number] = true
}

func (r *repo) on(number int) []*Comment {
	var out []*Comment
	for _, c := range r.comments {
		if c.Number == number {
			out = append(out, c)
		}
	}
	return out
}

// isPull reports whether the number is a pull request's; others are issues'.
func (r *repo) isPull(number int) bool {
	return slices.ContainsFunc(r.pulls, func(p Pull) bool { return p.Number == number })
}

// level returns the token's permission for the conversation: that of a pull request is open to
// tokens that may write to pull requests or to issues.
func (q *request) level(number int) Level {
	if q.repo.isPull(number) {
		return max(q.access.Pulls, q.access.Issues)
	}
	return q.access.Issues
}

func (q *request) listComments(args []string) reply {
	number, err := strconv.Atoi(args[0])
	if err != nil || !q.repo.exists(number) {
		return notFound()
	}
	if !q.may(q.level(number)) {
		return q.denied()
	}
	return list(q, q.repo.on(number), q.showComment)
}

// exists reports whether there is a pull request or issue with this number.
func (r *repo) exists(number int) bool { return r.isPull(number) || r.issues[number] }

func (q *request) showComment(c *Comment) map[string]any {
	return map[string]any{
		"id":         c.ID,
		"body":       c.Body,
		"user":       author(c.Author),
		"created_at": c.CreatedAt,
		"updated_at": c.UpdatedAt,
		"url":        fmt.Sprintf("%s/repos/%s/issues/comments/%d", q.base, q.repo.name, c.ID),
		"html_url":   fmt.Sprintf("https://github.com/%s/pull/%d#issuecomment-%d", q.repo.name, c.Number, c.ID),
	}
}

// text reads the body of a new comment.
func (q *request) text() (string, *reply) {
	var in struct {
		Body *string `json:"body"`
	}
	var out reply
	switch err := json.Unmarshal(q.body, &in); {
	case err != nil:
		out = problem(http.StatusBadRequest, "Problems parsing JSON")
	case in.Body == nil || strings.TrimSpace(*in.Body) == "":
		out = invalid("IssueComment", "body", "Body can't be blank")
	case utf8.RuneCountInString(*in.Body) > maxComment:
		out = invalid("IssueComment", "data", fmt.Sprintf("Body is too long (maximum is %d characters)", maxComment))
	default:
		return *in.Body, nil
	}
	return "", &out
}

func (q *request) createComment(args []string) reply {
	number, err := strconv.Atoi(args[0])
	level := q.level(number)
	switch {
	case !q.known:
		return problem(http.StatusUnauthorized, "Requires authentication")
	case err != nil || !q.repo.exists(number):
		return notFound()
	case q.access.Integration && level < Write:
		return q.denied()
	case q.repo.locked[number] && q.access.Contents < Write:
		return problem(http.StatusForbidden, "Unable to create comment because issue is locked.")
	}
	body, bad := q.text()
	if bad != nil {
		return *bad
	}
	c := q.server.comment(q.repo, number, q.access.Login, body)
	return reply{status: http.StatusCreated, value: q.showComment(c)}
}

// find returns the comment with the id in the path, or nil.
func (q *request) find(id string) *Comment {
	for _, c := range q.repo.comments {
		if strconv.FormatInt(c.ID, 10) == id {
			return c
		}
	}
	return nil
}

func (q *request) getComment(args []string) reply {
	c := q.find(args[0])
	if c == nil {
		return notFound()
	}
	if !q.may(q.level(c.Number)) {
		return q.denied()
	}
	return ok(q.showComment(c))
}

// mayChange reports whether the token may edit or delete the comment: users may change their own,
// writers all.
func (q *request) mayChange(c *Comment) bool {
	return q.level(c.Number) >= Write || !q.access.Integration && q.known && c.Author == q.access.Login
}

func (q *request) editComment(args []string) reply {
	c := q.find(args[0])
	switch {
	case c == nil:
		return notFound()
	case !q.mayChange(c):
		return q.denied()
	}
	body, bad := q.text()
	if bad != nil {
		return *bad
	}
	c.Body, c.UpdatedAt = body, q.server.now()
	c.Edits++
	return ok(q.showComment(c))
}

func (q *request) deleteComment(args []string) reply {
	c := q.find(args[0])
	switch {
	case c == nil:
		return notFound()
	case !q.mayChange(c):
		return q.denied()
	}
	q.repo.comments = slices.DeleteFunc(q.repo.comments, func(other *Comment) bool { return other == c })
	return reply{status: http.StatusNoContent}
}
