package browsertest_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/browsertest"
)

// manyJobs writes jobs below dir with only the files that an index is made of.
func manyJobs(t *testing.T, dir string, jobs, trials int) {
	t.Helper()
	for n := range jobs {
		began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(n) * time.Hour)
		plan := result.Plan{JobName: "nightly", StartedAt: began, Metrics: []string{"mean"}}
		var done []result.Trial
		for i := range trials {
			key := result.Key{Agent: "my-agent", Dataset: "evals", Task: fmt.Sprintf("task-%04d", i/2), Attempt: 1 + i%2}
			trial := result.Trial{Key: key, Reward: new(float64(min(i%3, 1))), Cost: result.Dollars(0.25)}
			trial.Timestamps.StartedAt, trial.Timestamps.EndedAt, trial.Durations.TotalSec = began, began.Add(time.Minute), 60
			plan.Trials.Append(key)
			done = append(done, trial)
		}
		at := filepath.Join(dir, fmt.Sprintf("job-%03d", n))
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(
			result.WriteJSON(filepath.Join(at, result.PlanFile), plan), result.WriteFile(filepath.Join(at, result.ConfigFile), []byte("{}\n")),
			result.WriteJSON(filepath.Join(at, result.ResultFile), result.Summarize(plan, done)),
		); err != nil {
			t.Fatal(err)
		}
	}
}

// painted returns when a page was first painted with content, in milliseconds after its request.
func painted(t *testing.T, browser *browsertest.Browser, address string) (ms float64) {
	t.Helper()
	tab := browser.Open(t, address, browsertest.Look{})
	defer tab.Close()
	const paint = `performance.getEntriesByName("first-contentful-paint")`
	tab.Wait(paint + ".length === 1")
	tab.Eval(paint+"[0].startTime", &ms)
	return ms
}

// The index of 100 jobs of 1,000 trials is painted soon, compared with a plain page of the same
// size from a server in the same run.
func TestIndexOfManyJobsIsPaintedSoon(t *testing.T) {
	browser := browsertest.Start(t)
	dir := t.TempDir()
	manyJobs(t, filepath.Join(dir, "jobs"), 100, 1000)
	line := "<p>" + strings.Repeat("my-agent passed. ", 16) + "</p>\n"
	size := 0
	floor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "<!doctype html><html lang=\"en\"><title>plain</title>\n"+strings.Repeat(line, 1+size/len(line)))
	}))
	defer floor.Close()
	painted(t, browser, floor.URL) // the browser itself is warm
	first, again := math.Inf(1), math.Inf(1)
	for range 2 { // the better one: other programs disturb both
		server, address := view(t, dir)
		ours := painted(t, browser, address) // reads the jobs
		tab := browser.Open(t, address, browsertest.Look{})
		tab.Wait(`!document.body.textContent.includes("not read yet") && document.querySelectorAll("#rows tbody tr").length === 100`)
		tab.Eval("document.documentElement.outerHTML.length", &size)
		tab.Close()
		warm, plain := painted(t, browser, address), painted(t, browser, floor.URL)
		t.Logf("first painted after %.0f ms, %.0f ms when the jobs are read; a plain page of %d bytes after %.0f ms", ours, warm, size, plain)
		first, again = min(first, ours/plain), min(again, warm/plain)
		server.stop()
	}
	if first > 40 || again > 15 {
		t.Errorf("the index is first painted after %.1f times as long as a plain page, %.1f times when the jobs are read", first, again)
	}
}
