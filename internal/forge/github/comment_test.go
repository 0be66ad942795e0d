package github

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/forge/comments"
	"github.com/org/rollout-action/internal/test/githubtest"
)

// only returns the only comment.
func only(t *testing.T, s *githubtest.Server) githubtest.Comment {
	t.Helper()
	all := s.Comments(repo, 7)
	if len(all) != 1 {
		t.Fatalf("%d comments, want 1: %v", len(all), all)
	}
	return all[0]
}

func upsertOK(t *testing.T, c *Client, w Comment, want comments.Action) comments.Result {
	t.Helper()
	r, err := c.Upsert(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if r.Action != want {
		t.Errorf("it was %s, want %s", r.Action, want)
	}
	return r
}

func TestUpsertCreatesUpdatesAndKeeps(t *testing.T) {
	s, c, _ := fixture(t)
	first := upsertOK(t, c, comment(1, "red"), comments.Created)
	if got := only(t, s); !strings.HasSuffix(got.Body, " -->\nred\n") || got.ID != first.ID || got.Author != actionsBot {
		t.Errorf("the comment is %+v", got)
	}
	second := upsertOK(t, c, comment(2, "green"), comments.Updated)
	if got := only(t, s); !strings.HasSuffix(got.Body, " -->\ngreen\n") || got.ID != first.ID || second.ID != first.ID {
		t.Errorf("the comment is %+v", got)
	}
	s.Forget()
	upsertOK(t, c, comment(3, "green"), comments.Unchanged)
	if got := only(t, s); got.Edits != 1 {
		t.Errorf("it was edited %d times, want 1", got.Edits)
	}
	if count(s, http.MethodPatch)+count(s, http.MethodPost) > 0 {
		t.Errorf("an unchanged comment was written again: %q", s.Seen())
	}
	if second.URL == "" || !strings.Contains(second.URL, "/pull/7#issuecomment-") {
		t.Errorf("its URL is %q", second.URL)
	}
}

func TestOlderRunNeverReplacesNewerOne(t *testing.T) {
	base := comment(5, "base")
	for _, tc := range []struct {
		name   string
		change func(*Comment)
		want   comments.Action
	}{
		{"the lower run is older, even if its trials began later", func(w *Comment) { w.ValidAt = w.ValidAt.Add(time.Hour); w.RunID-- }, comments.Outdated},
		{"the lower run is older, even if it is run again", func(w *Comment) { w.ValidAt = w.ValidAt.Add(time.Hour); w.RunID--; w.Attempt++ }, comments.Outdated},
		{"the higher run is newer, even if its trials began earlier", func(w *Comment) { w.ValidAt = w.ValidAt.Add(-time.Hour); w.RunID++ }, comments.Updated},
		{"without a number, an earlier time is older", func(w *Comment) { w.ValidAt = w.ValidAt.Add(-time.Nanosecond); w.RunID = 0 }, comments.Outdated},
		{"without a number, a later time is newer", func(w *Comment) { w.ValidAt = w.ValidAt.Add(time.Nanosecond); w.RunID = 0 }, comments.Updated},
		{"in the same run the lower attempt is older", func(w *Comment) { w.Attempt-- }, comments.Outdated},
		{"in the same run the higher attempt is newer", func(w *Comment) { w.Attempt++ }, comments.Updated},
		{"the same attempt may update its comment", func(*Comment) {}, comments.Updated},
		{"time zones do not matter", func(w *Comment) { w.ValidAt = w.ValidAt.In(time.FixedZone("", 3600)).Add(-1) }, comments.Outdated},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c, _ := fixture(t)
			upsertOK(t, c, base, comments.Created)
			other := base
			other.Body = "other"
			tc.change(&other)
			upsertOK(t, c, other, tc.want)
			want := "\nother\n"
			if tc.want == comments.Outdated {
				want = "\nbase\n"
			}
			if got := only(t, s); !strings.HasSuffix(got.Body, want) {
				t.Errorf("the comment says %q, want %q at its end", got.Body, want)
			}
		})
	}
}

func TestCommentsOfOthersAreNotTouched(t *testing.T) {
	s, c, _ := fixture(t)
	forged := comment(9, "forged").text()
	for _, author := range []string{"mallory", "github-actions", "github-actions2[bot]", "other-app[bot]"} {
		s.AddComment(repo, 7, author, forged)
	}
	s.AddComment(repo, 7, actionsBot, "some other action's comment")
	s.AddComment(repo, 7, actionsBot, "quoted:\n"+forged)
	other := comment(9, "of another job")
	other.Marker = "weekly"
	s.AddComment(repo, 7, actionsBot, other.text())
	before := s.Comments(repo, 7)

	upsertOK(t, c, comment(1, "mine"), comments.Created)
	upsertOK(t, c, comment(2, "mine again"), comments.Updated)
	after := s.Comments(repo, 7)
	if len(after) != len(before)+1 {
		t.Fatalf("%d comments, want %d", len(after), len(before)+1)
	}
	for i := range before {
		if before[i] != after[i] {
			t.Errorf("%+v became %+v", before[i], after[i])
		}
	}
}

func TestCommentOnALaterPage(t *testing.T) {
	s, c, _ := fixture(t)
	for range 250 {
		s.AddComment(repo, 7, "chatty", "hm")
	}
	id := s.AddComment(repo, 7, actionsBot, comment(1, "old").text())
	for range 120 {
		s.AddComment(repo, 7, "chatty", "hm")
	}
	if r := upsertOK(t, c, comment(2, "new"), comments.Updated); r.ID != id {
		t.Errorf("comment %d was updated, want %d", r.ID, id)
	}
	if got := count(s, http.MethodPost); got != 0 {
		t.Errorf("%d comments were created", got)
	}
}

func TestDuplicatesAreMergedIntoTheOldest(t *testing.T) {
	for _, tc := range []struct {
		name     string
		existing []Comment
		want     string
		action   comments.Action
	}{
		{"all older", []Comment{comment(1, "a"), comment(2, "b"), comment(3, "c")}, "mine", comments.Updated},
		{"one newer, the oldest in place", []Comment{comment(8, "newer"), comment(2, "b")}, "newer", comments.Outdated},
		{"one newer, in the middle", []Comment{comment(1, "a"), comment(8, "newer"), comment(2, "b")}, "newer", comments.Outdated},
		{"the same text, but newer", []Comment{comment(1, "mine"), comment(8, "mine")}, "mine", comments.Outdated},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c, _ := fixture(t)
			var oldest int64
			newest := comment(5, "")
			for i, w := range tc.existing {
				id := s.AddComment(repo, 7, actionsBot, w.text())
				if i == 0 {
					oldest = id
				}
				if w.ValidAt.After(newest.ValidAt) {
					newest = w
				}
			}
			r := upsertOK(t, c, comment(5, "mine"), tc.action)
			got := only(t, s)
			first, body, _ := strings.Cut(got.Body, "\n")
			if got.ID != oldest || r.ID != oldest || body != tc.want+"\n" || r.Removed != len(tc.existing)-1 {
				t.Errorf("left is %+v, result %+v; want %d with %q", got, r, oldest, tc.want)
			}
			if want, _, _ := strings.Cut(newest.text(), "\n"); first != want {
				t.Errorf("the remaining comment has the marker %s, want %s", first, want)
			}
		})
	}
}

func TestStaleListingCreatesNoSecondComment(t *testing.T) {
	s, c, _ := fixture(t)
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("[]"))
		return true
	})
	upsertOK(t, c, comment(1, "text"), comments.Created)
	s.Before(nil)
	only(t, s)
}

func TestUncertainCreationIsChecked(t *testing.T) {
	for _, tc := range []struct {
		name    string
		carried bool // whether it was created despite the answer 502
	}{{"it was carried out", true}, {"it was not", false}} {
		t.Run(tc.name, func(t *testing.T) {
			s, c, _ := fixture(t)
			failed := false
			s.Before(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost || r.URL.Path == "/graphql" || failed {
					return false
				}
				failed = true
				if tc.carried {
					s.AddComment(repo, 7, actionsBot, comment(1, "text").text())
				}
				w.WriteHeader(http.StatusBadGateway)
				return true
			})
			upsertOK(t, c, comment(1, "text"), comments.Created)
			only(t, s)
		})
	}
}

func TestRepeatedCreationFailureIsAnError(t *testing.T) {
	s, c, _ := fixture(t)
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || r.URL.Path == "/graphql" {
			return false
		}
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	_, err := c.Upsert(t.Context(), comment(1, "text"))
	if !isStatus(err, http.StatusBadGateway) {
		t.Errorf("the error is %v", err)
	}
	// Between two of them, it checked whether the first one was created.
	if got := count(s, http.MethodPost); got != comments.Rounds || count(s, http.MethodGet) != comments.Rounds {
		t.Errorf("%d were sent, with %d checks, want %d", got, count(s, http.MethodGet), comments.Rounds)
	}
}

func TestDeletedCommentIsCreatedAgain(t *testing.T) {
	s, c, _ := fixture(t)
	id := s.AddComment(repo, 7, actionsBot, comment(1, "old").text())
	gone := false
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && !gone {
			gone = true
			req, _ := http.NewRequest(http.MethodDelete, s.URL+r.URL.Path, nil)
			req.Header.Set("Authorization", "Bearer "+githubtest.WriteToken)
			req.Header.Set("User-Agent", "somebody")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return false
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusNoContent {
				t.Errorf("delete: %s", resp.Status)
			}
		}
		return false
	})
	r, err := c.Upsert(t.Context(), comment(2, "new"))
	if got := only(t, s); err != nil || got.ID == id || r.ID != got.ID || !strings.HasSuffix(got.Body, "\nnew\n") {
		t.Errorf("left is %+v, result %+v, %v", got, r, err)
	}
}

func TestOwnCommentsAreRecognised(t *testing.T) {
	for _, tc := range []struct {
		name      string
		access    githubtest.Access
		noGraphQL bool
	}{
		{"a workflow", githubtest.Workflow(), false},
		{"a workflow, without GraphQL", githubtest.Workflow(), true},
		{"a user's token", githubtest.User("Octo-Cat"), false},
		{"a user's token, without GraphQL", githubtest.User("Octo-Cat"), true},
		{"an app", app("our-app[bot]"), false},
		{"an app, without GraphQL", app("our-app[bot]"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _, clock := fixture(t)
			if tc.noGraphQL {
				s.DisableGraphQL()
			}
			s.AddToken("token", tc.access)
			upsertOK(t, client(t, s, clock, "token"), comment(1, "one"), comments.Created)
			first := only(t, s)
			// A new client, as in the next run, recognises the comment, even if it first learns its
			// login.
			if _, err := client(t, s, clock, "token").Upsert(t.Context(), comment(2, "two")); err != nil {
				t.Fatal(err)
			}
			got := only(t, s)
			if got.ID != first.ID || got.Author != tc.access.Login || !strings.HasSuffix(got.Body, "\ntwo\n") {
				t.Errorf("%+v became %+v", first, got)
			}
		})
	}
}

func app(login string) githubtest.Access {
	a := githubtest.Workflow()
	a.Login = login
	return a
}

func TestRefusedComments(t *testing.T) {
	long := strings.Repeat("x", MaxComment)
	for _, tc := range []struct {
		name     string
		token    string
		change   func(*Comment)
		want     string
		readOnly bool
		writes   int
	}{
		{name: "a token that only reads", token: githubtest.ReadToken, want: "permission pull-requests: write", readOnly: true, writes: 1},
		{name: "no token", token: "", want: "GITHUB_TOKEN"},
		{name: "a wrong token", token: "ghs_wrong", want: "401"},
		{name: "another pull request", token: githubtest.WriteToken, change: func(w *Comment) { w.Number = 8 }, want: "#8: GitHub answered 404"},
		{name: "no pull request", token: githubtest.WriteToken, change: func(w *Comment) { w.Number = 0 }, want: "0 is not the number"},
		{name: "no job", token: githubtest.WriteToken, change: func(w *Comment) { w.Marker = "" }, want: "no name"},
		{name: "no text", token: githubtest.WriteToken, change: func(w *Comment) { w.Body = " \n" }, want: "the text is empty"},
		{name: "a text that is too long", token: githubtest.WriteToken, change: func(w *Comment) { w.Body = long }, want: "more than the 65536"},
		{name: "a strange repository", token: githubtest.WriteToken, change: func(w *Comment) { w.Repo = "../user?x=1" }, want: "owner/name"},
		{name: "only dots", token: githubtest.WriteToken, change: func(w *Comment) { w.Repo = "../.." }, want: "owner/name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _, clock := fixture(t)
			w := comment(1, "text")
			if tc.change != nil {
				tc.change(&w)
			}
			_, err := client(t, s, clock, tc.token).Upsert(t.Context(), w)
			if err == nil || !strings.Contains(err.Error(), tc.want) || errors.Is(err, ErrReadOnly) != tc.readOnly {
				t.Errorf("the error is %v, want one with %q", err, tc.want)
			}
			if got := count(s, http.MethodPost); got != tc.writes {
				t.Errorf("%d comments were sent, want %d", got, tc.writes)
			}
			if len(s.Comments(repo, 7)) > 0 {
				t.Error("there is a comment")
			}
		})
	}
}

func TestLockedConversationIsNotAReadOnlyToken(t *testing.T) {
	s, c, _ := fixture(t)
	s.Lock(repo, 7)
	_, err := c.Upsert(t.Context(), comment(1, "text"))
	if err == nil || errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "locked") {
		t.Errorf("the error is %v", err)
	}
}

func TestLargestCommentIsAccepted(t *testing.T) {
	s, c, _ := fixture(t)
	w := comment(1, "")
	w.Body = strings.Repeat("é", (MaxComment-CommentOverhead(w))/2)
	upsertOK(t, c, w, comments.Created)
	if got := len(only(t, s).Body); got > MaxComment || got < MaxComment-1 {
		t.Errorf("the comment has %d bytes", got)
	}
	w.Body += "é"
	if _, err := c.Upsert(t.Context(), w); err == nil {
		t.Error("a larger comment was accepted")
	}
}

func TestHasComment(t *testing.T) {
	s, c, _ := fixture(t)
	for _, want := range []bool{false, true} {
		got, err := c.HasComment(t.Context(), repo, 7, "nightly")
		if got != want || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
		s.AddComment(repo, 7, actionsBot, comment(1, "text").text())
	}
	if got, err := c.HasComment(t.Context(), repo, 7, "weekly"); got || err != nil {
		t.Errorf("another job's: got %v, %v", got, err)
	}
}

func TestUpsertStopsWithItsContext(t *testing.T) {
	s, c, _ := fixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.Before(func(http.ResponseWriter, *http.Request) bool {
		cancel()
		return false
	})
	if _, err := c.Upsert(ctx, comment(1, "text")); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestLoginIsRequestedOnce(t *testing.T) {
	s, c, _ := fixture(t)
	for range 3 {
		if _, err := c.HasComment(t.Context(), repo, 7, "nightly"); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Join(s.Seen(), " "), "POST /graphql"; strings.Count(got, want) != 1 {
		t.Errorf("the requests are %s", got)
	}
}

func TestEndedRuns(t *testing.T) {
	s, c, clock := fixture(t)
	thread, _, err := c.Thread(repo, 7)
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[string]bool{"completed": true, "in_progress": false, "queued": false, "waiting": false} {
		run := s.AddRun(repo, githubtest.Run{WorkflowFile: "ci.yml", Status: status})
		if ended, err := thread.Ended(t.Context(), run); ended != want || err != nil {
			t.Errorf("%s: %v, %v", status, ended, err)
		}
	}
	if ended, err := thread.Ended(t.Context(), 1); ended || !isStatus(err, http.StatusNotFound) {
		t.Errorf("an unknown run: %v, %v", ended, err)
	}
	// Upsert also asks whether the run has ended.
	id := s.AddRun(repo, githubtest.Run{WorkflowFile: "ci.yml"})
	newer := comment(2, comments.Going("`abc`", "", start))
	upsertOK(t, c, comment(0, "verdict"), comments.Created)
	newer.RunID = id + 1000
	s.AddRun(repo, githubtest.Run{ID: newer.RunID, WorkflowFile: "ci.yml"})
	settle := func(context.Context) error { return nil }
	if action, err := comments.Announce(t.Context(), thread, newer.common(), MaxComment, settle); action != comments.Updated || err != nil {
		t.Fatal(action, err)
	}
	if _, err := client(t, s, clock, githubtest.WriteToken).Upsert(t.Context(), comment(1, "late")); err != nil {
		t.Fatal(err)
	}
	if got := only(t, s).Body; !strings.Contains(got, "The evaluation of `abc` ended without a verdict.") || !strings.Contains(got, "verdict\n") || strings.Contains(got, "late") {
		t.Errorf("the comment is %s", got)
	}
}
