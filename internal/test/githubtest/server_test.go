package githubtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

const name = "acme/widgets"

func server(t *testing.T) *Server {
	t.Helper()
	s := New(t)
	s.AddRepo(name)
	s.AddPull(name, Pull{Number: 7, HeadBranch: "feature", HeadSHA: "c7", Base: "main"})
	return s
}

// answer is a response of the server.
type answer struct {
	status int
	header http.Header
	body   string
}

// say sends a request with a token; path is relative to the API, or absolute.
func say(t *testing.T, s *Server, token, method, path, body string) answer {
	t.Helper()
	if !strings.HasPrefix(path, "http") {
		path = s.URL + path
	}
	req, err := http.NewRequest(method, path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User-Agent", "test")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// expect calls say, and checks the status and a part of the body.
func expect(t *testing.T, s *Server, token, method, path, body string, status int, part string) answer {
	t.Helper()
	got := say(t, s, token, method, path, body)
	if got.status != status || !strings.Contains(got.body, part) {
		t.Errorf("%s %s: %d %s, want %d with %q", method, path, got.status, got.body, status, part)
	}
	return got
}

const comments = "/repos/acme/widgets/issues/7/comments"

func text(body string) string {
	out, err := json.Marshal(map[string]string{"body": body})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return string(out)
}

func TestPages(t *testing.T) {
	s := server(t)
	for range 250 {
		s.AddComment(name, 7, "chatty", "hm")
	}
	for _, tc := range []struct {
		query string
		items int
		links []string // the relations, in order
	}{
		{"", 30, []string{"next", "last"}},
		{"?per_page=100", 100, []string{"next", "last"}},
		{"?per_page=1000", 100, []string{"next", "last"}},
		{"?per_page=100&page=2", 100, []string{"prev", "next", "last", "first"}},
		{"?per_page=100&page=3", 50, []string{"prev", "first"}},
		{"?per_page=100&page=9", 0, []string{"prev", "first"}},
		{"?per_page=x&page=-1", 30, []string{"next", "last"}},
	} {
		got := expect(t, s, ReadToken, "GET", comments+tc.query, "", 200, "")
		var items []any
		if err := json.Unmarshal([]byte(got.body), &items); err != nil || len(items) != tc.items {
			t.Errorf("%s: %d items, %v, want %d", tc.query, len(items), err, tc.items)
		}
		var rels []string
		for _, link := range strings.Split(got.header.Get("Link"), ", ") {
			address, rel, _ := strings.Cut(link, "; ")
			u, err := url.Parse(strings.Trim(address, "<>"))
			if err != nil || "http://"+u.Host != s.URL || u.Query().Get("page") == "" {
				t.Errorf("%s: link %s", tc.query, link)
			}
			rels = append(rels, strings.TrimSuffix(strings.TrimPrefix(rel, `rel="`), `"`))
		}
		if fmt.Sprint(rels) != fmt.Sprint(tc.links) {
			t.Errorf("%s: links %v, want %v", tc.query, rels, tc.links)
		}
	}
	if got := say(t, server(t), ReadToken, "GET", comments, ""); got.header.Get("Link") != "" || got.body != "[]\n" {
		t.Errorf("an empty list is %+v", got)
	}
}

func TestPermissionToComment(t *testing.T) {
	s := server(t)
	s.AddToken("user", User("octocat").ReadOnly())
	s.AddToken("admin", User("admin"))
	issues := Workflow()
	issues.Pulls, issues.Issues = Read, Write
	s.AddToken("issues", issues)
	s.AddIssue(name, 8)

	expect(t, s, WriteToken, "POST", comments, text("a"), 201, `"login":"github-actions[bot]"`)
	expect(t, s, "issues", "POST", comments, text("a"), 201, "")
	expect(t, s, "user", "POST", comments, text("a"), 201, `"login":"octocat"`)
	expect(t, s, ReadToken, "POST", comments, text("a"), 403, "Resource not accessible by integration")
	expect(t, s, "", "POST", comments, text("a"), 404, "Not Found") // a private repository
	expect(t, s, "wrong", "GET", comments, "", 401, "Bad credentials")
	expect(t, s, WriteToken, "POST", "/repos/acme/widgets/issues/8/comments", text("a"), 403, "integration") // an issue
	expect(t, s, WriteToken, "POST", "/repos/acme/widgets/issues/9/comments", text("a"), 404, "Not Found")
	expect(t, s, WriteToken, "POST", "/repos/acme/gadgets/issues/7/comments", text("a"), 404, "Not Found")
	s.Publish(name)
	expect(t, s, "", "GET", comments, "", 200, "")
	expect(t, s, "", "POST", comments, text("a"), 401, "Requires authentication")
	s.Lock(name, 7)
	expect(t, s, "user", "POST", comments, text("a"), 403, "locked")
	expect(t, s, "admin", "POST", comments, text("a"), 201, "")
}

func TestPermissionToChangeComments(t *testing.T) {
	s := server(t)
	s.AddToken("user", User("octocat").ReadOnly())
	own := fmt.Sprintf("/repos/acme/widgets/issues/comments/%d", s.AddComment(name, 7, "octocat", "mine"))
	others := fmt.Sprintf("/repos/acme/widgets/issues/comments/%d", s.AddComment(name, 7, "somebody", "theirs"))
	expect(t, s, "user", "PATCH", own, text("new"), 200, `"body":"new"`)
	expect(t, s, "user", "PATCH", others, text("new"), 403, "Must have admin rights")
	expect(t, s, "user", "DELETE", others, "", 403, "Must have admin rights")
	expect(t, s, ReadToken, "PATCH", own, text("new"), 403, "integration")
	expect(t, s, ReadToken, "DELETE", own, "", 403, "integration")
	expect(t, s, WriteToken, "PATCH", others, text("newer"), 200, `"login":"somebody"`)
	expect(t, s, WriteToken, "GET", others, "", 200, "newer")
	expect(t, s, "user", "DELETE", own, "", 204, "")
	expect(t, s, "user", "DELETE", own, "", 404, "Not Found")
	if all := s.Comments(name, 7); len(all) != 1 || all[0].Edits != 1 || all[0].Body != "newer" {
		t.Errorf("left are %+v", all)
	}
}

func TestSizeOfComments(t *testing.T) {
	s := server(t)
	expect(t, s, WriteToken, "POST", comments, text(strings.Repeat("é", 65536)), 201, "")
	expect(t, s, WriteToken, "POST", comments, text(strings.Repeat("é", 65537)), 422, "Body is too long (maximum is 65536 characters)")
	expect(t, s, WriteToken, "POST", comments, text(" "), 422, "can't be blank")
	expect(t, s, WriteToken, "POST", comments, "{}", 422, "can't be blank")
	expect(t, s, WriteToken, "POST", comments, "{", 400, "parsing JSON")
}

func TestLimits(t *testing.T) {
	s := server(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s.Now = func() time.Time { return now }
	got := expect(t, s, ReadToken, "GET", comments, "", 200, "")
	if got.header.Get("X-RateLimit-Remaining") != "999" || got.header.Get("X-RateLimit-Limit") != "1000" {
		t.Errorf("headers %v", got.header)
	}
	s.SetRate(1, now.Add(time.Minute))
	expect(t, s, ReadToken, "GET", comments, "", 200, "")
	got = expect(t, s, ReadToken, "GET", comments, "", 403, "API rate limit exceeded")
	if got.header.Get("X-RateLimit-Remaining") != "0" || got.header.Get("X-RateLimit-Reset") != fmt.Sprint(now.Add(time.Minute).Unix()) {
		t.Errorf("headers %v", got.header)
	}
	now = now.Add(time.Minute)
	expect(t, s, ReadToken, "GET", comments, "", 200, "")

	s.LimitSecondary(1, 403, 30*time.Second)
	s.LimitSecondary(1, 429, 0)
	if got := expect(t, s, ReadToken, "GET", comments, "", 403, "secondary rate limit"); got.header.Get("Retry-After") != "30" {
		t.Errorf("headers %v", got.header)
	}
	if got := expect(t, s, ReadToken, "GET", comments, "", 429, "about-secondary-rate-limits"); got.header.Get("Retry-After") != "" {
		t.Errorf("headers %v", got.header)
	}
	expect(t, s, ReadToken, "GET", comments, "", 200, "")
}

func TestArtifacts(t *testing.T) {
	s := server(t)
	now := time.Now()
	s.Now = func() time.Time { return now }
	run := s.AddRun(name, Run{WorkflowFile: "ci.yml", Branch: "main", SHA: "c1"})
	id, err := s.AddArtifact(name, run, Artifact{Name: "a", Files: map[string]string{"f": "content"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddArtifact(name, run, Artifact{Name: "a"}); !errors.Is(err, ErrConflict) {
		t.Errorf("a second one of the name: %v", err)
	}
	for _, bad := range []string{"", "a:b", "a/b", "a*"} {
		if _, err := s.AddArtifact(name, run, Artifact{Name: bad}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if _, err := s.AddArtifact(name, 1, Artifact{Name: "a"}); err == nil {
		t.Error("an artifact was added to a missing run")
	}
	other := s.AddRun(name, Run{WorkflowFile: "ci.yml", Branch: "main", SHA: "c1"})
	old, err := s.AddArtifact(name, other, Artifact{Name: "a", Expired: true})
	if err != nil {
		t.Fatal(err)
	}

	list := fmt.Sprintf("/repos/acme/widgets/actions/runs/%d/artifacts", run)
	expect(t, s, ReadToken, "GET", list+"?name=a", "", 200, `"total_count":1`)
	expect(t, s, ReadToken, "GET", list+"?name=b", "", 200, `"total_count":0`)
	expect(t, s, ReadToken, "GET", "/repos/acme/widgets/actions/artifacts", "", 200, `"total_count":2`)
	path := fmt.Sprintf("/repos/acme/widgets/actions/artifacts/%d", id)
	expect(t, s, ReadToken, "GET", path, "", 200, `"expired":false`)
	expect(t, s, ReadToken, "GET", fmt.Sprintf("/repos/acme/widgets/actions/artifacts/%d/zip", old), "", 410, "expired")

	address := say(t, s, ReadToken, "GET", path+"/zip", "").header.Get("Location")
	if !strings.HasPrefix(address, s.StorageURL+"/") || strings.HasPrefix(address, s.URL+"/") {
		t.Fatalf("the address is %s", address)
	}
	zipped, err := Zip(map[string]string{"f": "content"})
	if err != nil {
		t.Fatal(err)
	}
	if got := expect(t, s, "", "GET", address, "", 200, ""); !bytes.Equal([]byte(got.body), zipped) {
		t.Error("the content differs")
	}
	expect(t, s, ReadToken, "GET", address, "", 400, "")
	expect(t, s, "", "GET", strings.Replace(address, "sig=", "sig=x", 1), "", 403, "")
	now = now.Add(2 * time.Minute)
	expect(t, s, "", "GET", address, "", 403, "")

	s.Publish(name)
	expect(t, s, "", "GET", list, "", 200, "")
	expect(t, s, "", "GET", path+"/zip", "", 401, "Requires authentication")
}

func TestRunsAreFiltered(t *testing.T) {
	s := server(t)
	s.AddRun(name, Run{WorkflowFile: "ci.yml", Branch: "main", SHA: "c1"})
	s.AddRun(name, Run{WorkflowFile: "ci.yml", Branch: "main", SHA: "c2", Event: "schedule", Conclusion: "failure"})
	s.AddRun(name, Run{WorkflowFile: "ci.yml", Branch: "feature", SHA: "c3", Event: "pull_request", Status: "in_progress"})
	s.AddRun(name, Run{WorkflowFile: "other.yml", Branch: "main", SHA: "c1"})
	for query, want := range map[string]int{
		"": 3, "?branch=main": 2, "?event=schedule": 1, "?status=completed": 2, "?status=failure": 1, "?status=in_progress": 1,
		"?head_sha=c1": 1, "?branch=main&event=push": 1, "?branch=none": 0,
	} {
		expect(t, s, ReadToken, "GET", "/repos/acme/widgets/actions/workflows/ci.yml/runs"+query, "", 200, fmt.Sprintf(`"total_count":%d,`, want))
	}
	expect(t, s, ReadToken, "GET", "/repos/acme/widgets/actions/runs", "", 200, `"total_count":4`)
	expect(t, s, ReadToken, "GET", "/repos/acme/widgets/actions/workflows/none.yml/runs", "", 404, "")
	s.AddWorkflow(name, "none.yml")
	expect(t, s, ReadToken, "GET", "/repos/acme/widgets/actions/workflows/none.yml/runs", "", 200, `"total_count":0`)
	a := Workflow()
	a.Actions = None
	s.AddToken("none", a)
	expect(t, s, "none", "GET", "/repos/acme/widgets/actions/runs", "", 403, "integration")
}

func TestComparesCommitsByHistory(t *testing.T) {
	s := server(t)
	for _, c := range [][]string{{"c1"}, {"c2", "c1"}, {"c3", "c2"}, {"c4", "c2"}, {"c5", "c4", "c3"}, {"alone"}} {
		s.AddCommit(name, c[0], c[1:]...)
	}
	s.SetBranch(name, "main", "c3")
	s.SetBranch(name, "feature/x", "c4")
	expect(t, s, ReadToken, "GET", "/repos/acme/widgets/compare/main...c4", "", 200, `"behind_by":1`)
	got := expect(t, s, ReadToken, "GET", "/repos/acme/widgets/compare/main...feature%2Fx", "", 200, `"ahead_by":1`)
	var comparison struct {
		Base struct {
			SHA string `json:"sha"`
		} `json:"merge_base_commit"`
	}
	if err := json.Unmarshal([]byte(got.body), &comparison); err != nil || comparison.Base.SHA != "c2" {
		t.Errorf("the merge base is %q, %v", comparison.Base.SHA, err)
	}
	expect(t, s, ReadToken, "GET", "/repos/acme/widgets/compare/main...alone", "", 404, "No common ancestor")
	expect(t, s, ReadToken, "GET", "/repos/acme/widgets/compare/main...none", "", 404, "")
	var commits []struct {
		SHA string `json:"sha"`
	}
	got = expect(t, s, ReadToken, "GET", "/repos/acme/widgets/commits?sha=c5", "", 200, "")
	if err := json.Unmarshal([]byte(got.body), &commits); err != nil || fmt.Sprint(commits) != "[{c5} {c4} {c3} {c2} {c1}]" {
		t.Errorf("the history is %v, %v", commits, err)
	}
}

func TestPullsAreFiltered(t *testing.T) {
	s := server(t)
	s.AddPull(name, Pull{Number: 8, HeadRepo: "mallory/widgets", HeadBranch: "feature", HeadSHA: "x", Base: "main"})
	s.AddPull(name, Pull{Number: 9, HeadBranch: "feature", HeadSHA: "y", Base: "main", State: "closed"})
	for query, want := range map[string]int{
		"": 2, "?head=acme:feature": 1, "?head=mallory:feature": 1, "?head=eve:feature": 0, "?head=feature": 2, "?state=all": 3,
		"?state=closed": 1, "?base=next": 0,
	} {
		got := expect(t, s, ReadToken, "GET", "/repos/acme/widgets/pulls"+query, "", 200, "")
		var pulls []any
		if err := json.Unmarshal([]byte(got.body), &pulls); err != nil || len(pulls) != want {
			t.Errorf("%s: %d pull requests, %v, want %d", query, len(pulls), err, want)
		}
	}
	expect(t, s, ReadToken, "GET", "/repos/acme/widgets/pulls/8", "", 200, `"full_name":"mallory/widgets"`)
}

func TestLoginOfTokens(t *testing.T) {
	s := server(t)
	s.AddToken("user", User("octocat"))
	question := `{"query":"query { viewer { login } }"}`
	expect(t, s, WriteToken, "GET", "/user", "", 403, "integration")
	expect(t, s, "user", "GET", "/user", "", 200, "octocat")
	expect(t, s, "", "GET", "/user", "", 401, "")
	expect(t, s, WriteToken, "POST", "/graphql", question, 200, "github-actions[bot]")
	expect(t, s, "", "POST", "/graphql", question, 401, "")
	expect(t, s, WriteToken, "POST", "/graphql", `{"query":"query { everything }"}`, 200, "errors")
	expect(t, s, WriteToken, "POST", "/api/graphql", question, 200, "github-actions[bot]")
	expect(t, s, ReadToken, "GET", "/api/v3"+comments, "", 200, "")
	s.DisableGraphQL()
	expect(t, s, WriteToken, "POST", "/graphql", question, 404, "")
}

func TestRequestWithoutUserAgentIsRefused(t *testing.T) {
	s := server(t)
	resp, err := http.Get(s.URL + comments)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("got %s", resp.Status)
	}
}

func TestServeListensUntilItIsClosed(t *testing.T) {
	s, err := Serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.AddRepo(name)
	s.AddPull(name, Pull{Number: 7})
	expect(t, s, WriteToken, "POST", comments, text("a"), 201, "")
	requests := s.Requests()
	if len(requests) != 1 || requests[0].Body != text("a") || requests[0].Status != 201 || s.Seen()[0] != "POST "+comments {
		t.Errorf("requests %+v", requests)
	}
	s.Close()
	if resp, err := http.Get(s.URL); err == nil {
		resp.Body.Close()
		t.Error("it still listens")
	}
	if _, err := Serve("nowhere"); err == nil {
		t.Error("an invalid address was accepted")
	}
}

func TestConcurrentRequests(t *testing.T) {
	s := server(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				say(t, s, WriteToken, "POST", comments, text("a"))
				say(t, s, ReadToken, "GET", comments, "")
				s.Comments(name, 7)
			}
		})
	}
	wg.Wait()
	if got := len(s.Comments(name, 7)); got != 80 {
		t.Errorf("%d comments, want 80", got)
	}
	if got := len(s.Requests()); got != 160 {
		t.Errorf("%d requests, want 160", got)
	}
}
