package trial_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/run/dataset"
)

// testdata/harbor has a task in each of the shapes that published datasets have: terminal-bench's,
// that of SWE-gen-JS, and one with the newest keys.
func TestADatasetMadeForHarborRunsByHarborsRules(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		if p.name == sandboxPlace.name {
			needImage(t)
			p = strictPlace
		}
		set, warnings, err := dataset.Load(t.Context(), "harbor", filepath.Join("testdata", "harbor"), harbor)
		if err != nil || len(warnings) > 0 || len(set.Tasks) != 3 {
			t.Fatalf("%v, %v, %v", set, warnings, err)
		}
		var images sync.Map // outcome by task
		t.Cleanup(func() {
			images.Range(func(_, o any) bool {
				forget(t, o.(outcome))
				return true
			})
		})
		for _, puzzle := range set.Tasks {
			if len(puzzle.Problems) > 0 {
				t.Errorf("problems: %v", puzzle.Problems)
			}
			for who, reward := range map[string]string{agent.Oracle: "1", agent.Nop: "0"} {
				t.Run(puzzle.Name+" by "+who, func(t *testing.T) {
					t.Parallel()
					s := story{agent: agent.Agent{Name: who}}
					o := p.newScene(t, s).run(s, puzzle, 1)
					if p.name == dockerPlace.name {
						images.Store(puzzle.Name, o)
					}
					o.check(t, want{reward: reward})
					if puzzle.Name != "report" {
						return
					}
					if got, want := fmt.Sprint(o.Trial.Rewards), fmt.Sprintf("map[title:%s total:%s]", reward, reward); got != want {
						t.Errorf("rewards %s, want %s", got, want)
					}
					if got := o.file(t, "artifacts/started.txt"); got != "up\n" {
						t.Errorf("the healthcheck left %q", got)
					}
					if got := o.file(t, "logs/verifier/stdout.txt"); got != "judged by none\n" {
						t.Errorf("the verifier said %q", got)
					}
					if who == agent.Oracle && o.file(t, "artifacts/srv/report/total.txt") != "3\n" {
						t.Error("the report is not kept")
					}
				})
			}
		}
	})
}
