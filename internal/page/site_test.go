package page

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/gate"
	"github.com/org/rollout-action/internal/report/reporttest"
	"github.com/org/rollout-action/internal/result"
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

// Pages of a site link to each other: without a server to files, with one to addresses.
func TestPagesOfASiteLinkToEachOther(t *testing.T) {
	in := reporttest.Mixed()
	in.Files = fstest.MapFS{}
	key := in.Trials[0].Key
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
		if err := c.site.WriteTrial(&trial, in, in.Trials[0], "n", "", HasResult); err != nil {
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
		"the middle": {LogPart{Text: []byte("a"), From: 10 + LogPage, Size: 10 * LogPage}, []string{"?from=0", "?from=10", "?from=262155", "?from=2359296"}},
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
