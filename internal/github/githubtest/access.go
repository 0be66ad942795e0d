package githubtest

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Tokens that each server knows: a workflow's GITHUB_TOKEN with and without the right to write.
const (
	WriteToken = "ghs_writeTOKENwriteTOKENwriteTOKEN000000"
	ReadToken  = "ghs_readTOKENreadTOKENreadTOKENread00000"
)

// Level is what a token may do with one kind of thing.
type Level int

// The levels.
const (
	None Level = iota
	Read
	Write
)

// Access is who a token belongs to, and what it may do.
type Access struct {
	Login string // who writes with it
	// Integration says that it is a workflow's or an app's: GET /user is closed to it, and what it may not do is answered
	// as GitHub answers those.
	Integration bool
	Contents    Level
	Actions     Level
	Pulls       Level
	Issues      Level
}

// Workflow is the GITHUB_TOKEN of a job with the permissions contents: read, actions: read and pull-requests: write.
func Workflow() Access {
	return Access{Login: "github-actions[bot]", Integration: true, Contents: Read, Actions: Read, Pulls: Write, Issues: Read}
}

// User is a personal access token with everything.
func User(login string) Access {
	return Access{Login: login, Contents: Write, Actions: Write, Pulls: Write, Issues: Write}
}

// ReadOnly is a with nothing above reading.
func (a Access) ReadOnly() Access {
	a.Contents, a.Actions, a.Pulls, a.Issues = min(a.Contents, Read), min(a.Actions, Read), min(a.Pulls, Read), min(a.Issues, Read)
	return a
}

// AddToken makes a token known.
func (s *Server) AddToken(token string, a Access) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[token] = a
}

// DisableGraphQL has GraphQL answer 404 from now on.
func (s *Server) DisableGraphQL() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noGraphQL = true
}

// denied is the answer to a token that lacks a permission.
func (q *request) denied() reply {
	switch {
	case !q.known:
		return problem(http.StatusUnauthorized, "Requires authentication")
	case q.access.Integration:
		return problem(http.StatusForbidden, "Resource not accessible by integration")
	}
	return problem(http.StatusForbidden, "Must have admin rights to Repository.")
}

// may reports whether reading is allowed: in a public repository for everyone.
func (q *request) may(level Level) bool { return !q.repo.private || level >= Read }

// user is GET /user.
func (q *request) user() reply {
	switch {
	case !q.known:
		return problem(http.StatusUnauthorized, "Requires authentication")
	case q.access.Integration:
		return problem(http.StatusForbidden, "Resource not accessible by integration")
	}
	return ok(map[string]any{"login": q.access.Login, "type": "User"})
}

// graphql knows one question: who the viewer is.
func (q *request) graphql() reply {
	var question struct {
		Query string `json:"query"`
	}
	switch {
	case q.server.noGraphQL:
		return notFound()
	case !q.known:
		return problem(http.StatusUnauthorized, "This endpoint requires you to be authenticated.")
	case q.Method != http.MethodPost || json.Unmarshal(q.body, &question) != nil:
		return problem(http.StatusBadRequest, "Problems parsing JSON")
	case strings.Join(strings.Fields(question.Query), "") != "query{viewer{login}}":
		return ok(map[string]any{"errors": []map[string]string{{"message": "this server knows only query { viewer { login } }"}}})
	}
	return ok(map[string]any{"data": map[string]any{"viewer": map[string]any{"login": q.access.Login}}})
}

// author is a user as comments show it.
func author(login string) map[string]any {
	kind := "User"
	if strings.HasSuffix(login, "[bot]") {
		kind = "Bot"
	}
	return map[string]any{"login": login, "type": kind}
}
