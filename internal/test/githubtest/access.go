package githubtest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
)

// Default tokens of each server: a workflow's GITHUB_TOKEN with and without write permission.
const (
	WriteToken = "ghs_writeTOKENwriteTOKENwriteTOKEN000000"
	ReadToken  = "ghs_readTOKENreadTOKENreadTOKENread00000"
)

// Level is the permission of a token for one kind of object.
type Level int

// Levels, lowest first.
const (
	None Level = iota
	Read
	Write
)

// Access is the owner and the permissions of a token.
type Access struct {
	Login string // the author of its comments
	// Integration means that it belongs to a workflow or an app: GET /user is not available, and
	// errors are those that GitHub returns for such tokens.
	Integration bool
	Contents    Level
	Actions     Level
	Pulls       Level
	Issues      Level
}

// Workflow returns the GITHUB_TOKEN of a job with the permissions contents: read, actions: read and
// pull-requests: write.
func Workflow() Access {
	return Access{Login: "github-actions[bot]", Integration: true, Contents: Read, Actions: Read, Pulls: Write, Issues: Read}
}

// User returns a personal access token with all permissions.
func User(login string) Access {
	return Access{Login: login, Contents: Write, Actions: Write, Pulls: Write, Issues: Write}
}

// ReadOnly returns a without permissions above reading.
func (a Access) ReadOnly() Access {
	a.Contents, a.Actions, a.Pulls, a.Issues = min(a.Contents, Read), min(a.Actions, Read), min(a.Pulls, Read), min(a.Issues, Read)
	return a
}

// AddToken adds a token.
func (s *Server) AddToken(token string, a Access) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[token] = a
}

// DisableGraphQL makes GraphQL answer 404 from now on.
func (s *Server) DisableGraphQL() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noGraphQL = true
}

// SetPermission sets what a user may do in a repository: admin, write, read or none.
func (s *Server) SetPermission(name, login, permission string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(name)
	if r.users == nil {
		r.users = map[string]string{}
	}
	r.users[login] = permission
}

// permission answers what a user may do. In a public repository, everyone may read.
func (q *request) permission(args []string) reply {
	if !q.known {
		return q.denied()
	}
	return ok(map[string]any{"permission": cmp.Or(q.repo.users[args[0]], "read"), "user": author(args[0])})
}

// denied returns the response to a token that lacks a permission.
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

// user answers GET /user.
func (q *request) user() reply {
	switch {
	case !q.known:
		return problem(http.StatusUnauthorized, "Requires authentication")
	case q.access.Integration:
		return problem(http.StatusForbidden, "Resource not accessible by integration")
	}
	return ok(map[string]any{"login": q.access.Login, "type": "User"})
}

// graphql answers the one supported query: the viewer's login.
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

// author returns a user as comments show it.
func author(login string) map[string]any {
	kind := "User"
	if strings.HasSuffix(login, "[bot]") {
		kind = "Bot"
	}
	return map[string]any{"login": login, "type": kind}
}
