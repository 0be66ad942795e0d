package page

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model/trajectory"
	"github.com/org/rollout-action/internal/test/reporttest"
)

var assets = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|sha256-(?:[A-Za-z0-9/=]|&#43;)*`)

func TestIndexGolden(t *testing.T) {
	began := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	jobs := []Listed{
		{Name: "now", JobName: "nightly", State: "running", Started: began.Add(time.Hour), Trials: 1200, Completed: 7, Failed: 1, PassRate: new(0.5), MeanReward: new(0.75), Cost: result.Dollars(1.5), DurationSec: 100},
		{Name: "a b#?", JobName: "nightly", State: "done", Started: began, Commit: strings.Repeat("a1", 20), Trials: 3, Completed: 3, PassRate: new(1.0), Verdict: gate.Pass, Reason: "3 of 3 tasks passed"},
		{Name: "part", JobName: "part", State: "killed", Shard: "1/4", Trials: 3, Verdict: gate.Fail, Reason: "<script>\x1b[31mpwned()"},
		{Name: "torn", JobName: "torn", State: "unreadable", Reason: "it is torn"},
	}
	var b bytes.Buffer
	if err := (&Site{Live: true}).WriteIndex(&b, "jobs", jobs, `"1"`); err != nil {
		t.Fatal(err)
	}
	reporttest.Golden(t, "index.html", assets.ReplaceAll(b.Bytes(), []byte("…")))
}

// While a job runs, a trial without a result runs or waits; afterwards it was skipped.
func TestTrialsWithoutAResultRunOrWait(t *testing.T) {
	in := reporttest.Make("job", []reporttest.Spec{
		{Agent: "a", Dataset: "d", Task: "done", Reward: new(0.75), Seconds: 1, Logs: map[string]string{"logs/verifier/stdout.txt": "all that it said\n"}},
		{Agent: "a", Dataset: "d", Task: "begun", Logs: map[string]string{"command/stdout.txt": "so far"}}, {Agent: "a", Dataset: "d", Task: "later", Missing: true},
	})
	begun := result.Key{Agent: "a", Dataset: "d", Task: "begun", Attempt: 1}
	in.Trials = in.Trials[:1] // the other one has not ended
	site := &Site{Live: true}
	job := func(version string) string {
		var b bytes.Buffer
		if err := site.WriteJob(&b, in, "n", version); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	badge := func(state, task string) string {
		return `href="./t/a/d/` + task + `__1/" aria-label="attempt 1, ` + state + `"`
	}
	for version, want := range map[string][]string{
		`"1"`: {badge("running", "begun"), badge("waiting", "later"), `data-state="running"`, `data-state="waiting"`, "<dt>No result yet</dt>"},
		"":    {badge("skipped", "begun"), badge("skipped", "later"), `data-state="skipped"`, "<dt>Not run</dt>"},
	} {
		text := job(version)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("the page of version %s lacks %s", version, w)
			}
		}
		if version != "" && strings.Contains(text, `"badge skipped"`) {
			t.Error("a trial of a running job is said to be skipped")
		}
	}
	for missing, want := range map[NoResult]string{Runs: `<span class="badge running">running</span> <code>begun</code>`, Lost: `<span class="badge skipped">skipped</span> <code>begun</code>`} {
		var b bytes.Buffer
		if err := site.WriteTrial(&b, in, result.Trial{Key: begun}, "n", "", missing); err != nil || !strings.Contains(b.String(), want) || strings.Contains(b.String(), "no reward") {
			t.Errorf("%s: the page of the trial lacks %s, %v", missing, want, err)
		}
	}
	var b bytes.Buffer
	if err := site.WriteTrial(&b, in, *in.Trials[0].Unpack(), "n", "", HasResult); err != nil || !strings.Contains(b.String(), "<small>reward 0.75 · 1.0s</small>") {
		t.Errorf("the page of a short trial is headed otherwise, %v", err)
	}
}

// An index shows how agents did over its jobs.
func TestIndexShowsJobsOverTime(t *testing.T) {
	in := reporttest.Past()
	var jobs []Listed
	for i := range in.History {
		jobs = append(jobs, Listed{Name: strconv.Itoa(i), State: "done", Point: &in.History[len(in.History)-1-i]}, Listed{Name: "part", State: "done", Shard: "1/4"})
	}
	var b bytes.Buffer
	if err := (&Site{}).WriteIndex(&b, "jobs", jobs, ""); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if !strings.Contains(text, "Pass rate over runs") || strings.Count(text, "<circle") != 4*len(in.History) || strings.Contains(text, "this job") {
		t.Errorf("there are %d points of %d in each of 4 charts", strings.Count(text, "<circle"), len(in.History))
	}
}

// Pages of a site link to each other: without a server to files, with one to addresses.
func TestPagesOfASiteLinkToEachOther(t *testing.T) {
	in := reporttest.Mixed()
	in.Files = fstest.MapFS{}
	key := in.Trials[0].Key()
	for _, c := range []struct {
		site      *Site
		job, root string
	}{
		{&Site{}, `href="./t/` + escape(key.Dir()) + `/index.html"`, `href="../../../../../../index.html"`},
		{&Site{Live: true}, `href="./t/` + escape(key.Dir()) + `/"`, `href="../../../../../../"`},
	} {
		var job, trial bytes.Buffer
		if err := c.site.WriteJob(&job, in, "n", ""); err != nil {
			t.Fatal(err)
		}
		if err := c.site.WriteTrial(&trial, in, *in.Trials[0].Unpack(), "n", "", HasResult); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(job.String(), c.job) || strings.Contains(job.String(), `<details class="trial"`) {
			t.Errorf("the page of the job lacks %s, or has sections of trials", c.job)
		}
		if !strings.Contains(trial.String(), c.root) {
			t.Errorf("the page of the trial lacks %s", c.root)
		}
	}
}

// The whole of a file can be reached part by part.
func TestPartsOfAFileLinkToTheOthers(t *testing.T) {
	site := &Site{Live: true}
	for name, c := range map[string]struct {
		part LogPart
		want []string
	}{
		"all of it":  {LogPart{Text: []byte("a"), Size: 1}, nil},
		"the middle": {LogPart{Text: []byte("a"), From: 10 + LogPage, Size: 10 * LogPage}, []string{"?from=0", "?from=10", "?from=262155&amp;exact", "?from=2359296"}},
	} {
		var b bytes.Buffer
		if err := site.WriteLog(&b, c.part, "n", "a/d/t__1", "a/d/t__1/x/y.txt", ""); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		for _, link := range c.want {
			if !strings.Contains(text, `href="`+link+`"`) {
				t.Errorf("%s: %s is not linked", name, link)
			}
		}
		if c.want == nil && strings.Contains(text, "?from=") {
			t.Errorf("%s: there is a link to another part", name)
		}
		if !strings.Contains(text, `href="../../../../../../raw/n/a/d/t__1/x/y.txt"`) {
			t.Errorf("%s: the file itself is not linked", name)
		}
	}
}

// A conversation of a thousand turns is on the page of its trial as a whole, also if the trial
// passed.
func TestLongConversationIsOnThePageOfItsTrial(t *testing.T) {
	in := reporttest.Mixed()
	var passed result.Trial
	for _, trial := range result.UnpackAll(in.Trials) {
		if trial.Passed() {
			passed = trial
		}
	}
	var record trajectory.Trajectory
	for i := range 1000 {
		id := strconv.Itoa(i)
		record.Steps = append(record.Steps, trajectory.Step{
			ID: i + 1, Source: "agent", Message: "turn " + id + strings.Repeat(" a word", 100),
			Calls:       []trajectory.ToolCall{{ID: id, Name: "bash", Arguments: []byte(`{"command": "ls"}`)}},
			Observation: &trajectory.Observation{Results: []trajectory.Result{{Call: id, Content: strings.Repeat("a line\n", 300)}}},
		})
	}
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	in.Files = fstest.MapFS{passed.Dir() + "/" + result.ATIFFile: {Data: text}}
	var b bytes.Buffer
	if err := (&Site{Live: true}).WriteTrial(&b, in, passed, "n", "", HasResult); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if turns, lines := strings.Count(page, `class="turn agent"`), strings.Count(page, "a line\n"); turns != 1000 || lines < 299_000 || strings.Contains(page, "are left out here") {
		t.Errorf("there are %d turns and %d lines", turns, lines)
	}
	if len(page) > 8<<20 {
		t.Errorf("the page has %d bytes", len(page))
	}
}

// Of very many files of a trial, the first are listed, and its page says that there are more.
func TestPageOfATrialSaysThatFilesAreNotListed(t *testing.T) {
	in := reporttest.Mixed()
	for files, want := range map[int]int{maxSiteFiles: 0, maxSiteFiles + 1: 1} {
		tree := fstest.MapFS{}
		for i := range files {
			tree[in.Trials[0].Key().Dir()+"/artifacts/"+strconv.Itoa(i)] = &fstest.MapFile{}
		}
		in.Files = tree
		var b bytes.Buffer
		if err := (&Site{Live: true}).WriteTrial(&b, in, *in.Trials[0].Unpack(), "n", "", HasResult); err != nil {
			t.Fatal(err)
		}
		if listed, says := strings.Count(b.String(), ">download</a>"), strings.Count(b.String(), "all files but the first 2,000"); listed != maxSiteFiles || says != want {
			t.Errorf("of %d files %d are listed, and the page says %d times that there are more", files, listed, says)
		}
	}
}
