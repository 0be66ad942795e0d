package mine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/org/rollout-action/internal/app/mine"
	"github.com/org/rollout-action/internal/test/apptest"
)

func TestRunRefusesWhatItCannotMine(t *testing.T) {
	h, _ := apptest.New(t)
	for _, tc := range []struct {
		req  mine.Request
		want string
	}{
		{mine.Request{Repository: "nowhere", Out: "out"}, "nowhere: there is no such directory"},
		{mine.Request{Repository: "evals", Out: "out"}, "evals is in no git repository"},
	} {
		_, err := mine.Run(t.Context(), h, tc.req)
		apptest.Refused(t, err, tc.want)
	}
	if _, err := os.Lstat(filepath.Join(h.Dir, "out")); err == nil {
		t.Error("something was written")
	}
}
