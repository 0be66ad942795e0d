package library

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/history"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/page"
	"github.com/org/rollout-action/internal/output/viewer"
	"github.com/org/rollout-action/internal/test/jobtest"
)

// Shards in one place are shown as the job that a merge would write, be they directories, artifacts
// or archives, and also individually.
func TestShardsAreShownAsOneJob(t *testing.T) {
	for name, place := range map[string]func(s *jobtest.Scene, from, name string){
		"directories": func(s *jobtest.Scene, from, name string) { s.Check(os.Rename(from, s.In("jobs", name))) },
		"artifacts": func(s *jobtest.Scene, from, name string) {
			s.Check(os.MkdirAll(s.In("jobs", "rollout-"+name), 0o755))
			s.Check(os.Rename(from, s.In("jobs", "rollout-"+name, "nightly")))
		},
		"archives": func(s *jobtest.Scene, from, name string) { zipped(s.T, s.In("jobs", name+".zip"), from) },
	} {
		t.Run(name, func(t *testing.T) {
			s := jobtest.New(t)
			s.Config.Gate.Confidence, s.Config.Gate.Noise, s.Config.Gate.OnInconclusive, s.Config.Gate.OnNoBaseline = 0.95, gate.NoiseTest, gate.Pass, gate.Pass
			s.Check(os.MkdirAll(s.In("jobs"), 0o755))
			s.Shards(4, 3)
			for _, n := range []int{1, 2, 4} {
				place(s, s.In("shards", fmt.Sprint(n)), fmt.Sprintf("nightly-shard-%d", n))
			}
			storedJob(t, s.In("jobs", "other"), "other")
			before := s.Content(s.In("jobs"))
			l := libraryOf(t, s.In("jobs"))
			l.patience = 0
			jobs, err := l.Jobs(t.Context())
			s.Check(err)
			var set page.Listed
			for _, job := range jobs {
				if page.IsShards(job.Name) {
					set = job
				}
			}
			if len(jobs) != 5 || set.Trials != 16 || set.Completed != 13 || set.Failed != 3 || set.State != page.PartOnly || set.Parts.Says() != "3 of 4 shards, without 3" || set.PassRate == nil {
				t.Fatalf("the shards are %+v among %d jobs", set, len(jobs))
			}
			server := viewer.New(l, "Jobs", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
			get := func(below string) string {
				w := httptest.NewRecorder()
				server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, server.URL("")+below, http.NoBody))
				if text := w.Body.String(); w.Code == http.StatusOK && !(l.packed.temp != "" && strings.Contains(text, l.packed.temp)) {
					return text
				}
				t.Errorf("%s is %d", below, w.Code)
				return w.Body.String()
			}
			if text := get(""); !strings.Contains(text, "3 of 4 shards, without 3") {
				t.Error("the index does not say which shards there are")
			}
			at := "job/" + url.PathEscape(set.Name) + "/"
			text := get(at)
			for _, want := range []string{"Put together of 3 of 4 shards, without 3", "shard 3/4 is missing, and with it 4 trials", ">1/4<", ">4/4<", "task-4"} {
				if !strings.Contains(text, want) {
					t.Errorf("the page does not say %q", want)
				}
			}
			for _, part := range set.Parts.List {
				if !strings.Contains(text, `href="../`+url.PathEscape(part.Name)+`/"`) || !strings.Contains(get("job/"+url.PathEscape(part.Name)+"/"), "<code>nightly</code>") {
					t.Errorf("the shard %s has no page, or no link to it", part.Name)
				}
			}
			trials := 0
			for _, spec := range s.Specs {
				dir := spec.Key.Dir()
				if spec.Key.Task == "task-2" { // it is in shard 3
					continue
				}
				trials++
				if log := get("log/" + url.PathEscape(set.Name) + "/" + strings.ReplaceAll(dir, " ", "%20") + "/logs/agent/notes.txt"); !strings.Contains(log, spec.Key.String()) {
					t.Errorf("the log of %s is %s", dir, log)
				}
			}
			page := get(at + "t/" + strings.ReplaceAll(s.Specs[3].Key.Dir(), " ", "%20") + "/")
			if trials != 16 || !strings.Contains(page, "it fell over") || !strings.Contains(page, "logs/agent/notes.txt") || !strings.Contains(page, "do 1") {
				_, main, _ := strings.Cut(page, "<main>")
				t.Errorf("%d trials have a page, and that of one is\n%.4000s", trials, main)
			}
			if !maps.Equal(before, s.Content(s.In("jobs"))) {
				t.Error("files were changed")
			}
			host := *l.h
			done, err := ExportSite(t.Context(), &host, SiteRequest{Path: s.In("jobs"), To: s.In("site")})
			if err != nil || done.Jobs != 5 || done.Unreadable != 0 || done.Trials != 2*16+1 {
				index, _ := os.ReadFile(s.In("site", "index.html"))
				_, rows, _ := strings.Cut(string(index), "<tbody>")
				t.Errorf("exported: %+v, %v\n%.3000s", done, err, rows)
			}
		})
	}
}

// All shards of a job together are a point in the history, as their merge would be.
func TestShardsAreAPointOverTime(t *testing.T) {
	s := jobtest.New(t)
	s.Check(os.MkdirAll(s.In("jobs"), 0o755))
	s.Shards(2, -1)
	set := func() (set page.Listed) {
		l := libraryOf(t, s.In("jobs"))
		l.patience = 0
		jobs, err := l.Jobs(t.Context())
		s.Check(err)
		for _, job := range jobs {
			if page.IsShards(job.Name) {
				set = job
			} else if job.Point != nil {
				t.Errorf("%s alone is a point", job.Name)
			}
		}
		return set
	}
	var all []result.Trial
	var plan result.Plan
	for _, n := range []string{"1", "2"} {
		tree, err := result.ReadTree(s.In("shards", n))
		s.Check(err)
		all, plan = append(all, tree.Trials...), tree.Plan
		s.Check(os.Rename(s.In("shards", n), s.In("jobs", n)))
	}
	plan.Shard, plan.Trials = nil, result.Keys{}
	for _, trial := range all {
		plan.Trials.Append(trial.Key)
	}
	merged := result.Summarize(plan, all)
	merged.Results.Sort()
	want := history.PointOf(merged, "", "")
	if got := set(); got.State != string(JobDone) || got.Point == nil || !reflect.DeepEqual(got.Point.Agents, want.Agents) || got.Point.JobName != "nightly" {
		t.Errorf("of %s shards the point is %+v, want %+v", got.State, got.Point, want)
	}
	s.Check(os.RemoveAll(filepath.Join(s.In("jobs", "2"), all[len(all)-1].Dir())))
	s.Check(os.Remove(s.In("jobs", "2", result.ResultFile)))
	if got := set(); got.Point != nil {
		t.Errorf("without a trial the point is %+v", got.Point)
	}
}

// Shards of a job and of its baseline are compared as two jobs.
func TestShardsOfAPairAreCompared(t *testing.T) {
	s := jobtest.New(t)
	s.Config.Gate.Confidence, s.Config.Gate.Noise, s.Config.Gate.OnInconclusive, s.Config.Gate.OnNoBaseline = 0.95, gate.NoiseTest, gate.Pass, gate.Pass
	const commit = "1a2b3c4d5e6f7a8b9c0d1a2b3c4d5e6f7a8b9c0d"
	name := "nightly" + reporting.AgainstSuffix(commit)
	for n := 1; n <= 2; n++ {
		for job, paired := range map[string]result.Beside{"nightly": {JobName: name, Commit: commit}, name: {Baseline: true, JobName: "nightly", Commit: commit}} {
			dir := s.In("jobs", job+reporting.ShardSuffix(result.Shard{Index: n, Total: 2}))
			s.RunShard(dir, n, 2, nil)
			tree, err := result.ReadTree(dir)
			s.Check(err)
			tree.Plan.JobName, tree.Plan.Beside, tree.Plan.Checksums = job, &paired, false
			if paired.Baseline { // one task of it passed
				for i, trial := range tree.Trials {
					if trial.Task == "task-0" {
						tree.Trials[i].Reward, tree.Trials[i].Error = new(1.0), nil
						s.Check(result.WriteJSON(filepath.Join(dir, trial.Dir(), result.ResultFile), tree.Trials[i]))
						s.Write(filepath.Join(dir, trial.Dir(), result.ATIFFile), `{"steps": [{"source": "agent", "message": "said in the baseline"}]}`)
					}
				}
			} else {
				s.Write(filepath.Join(dir, tree.Trials[0].Dir(), result.ATIFFile), `{"steps": [{"source": "agent", "message": "said now"}]}`)
			}
			s.Check(result.WriteJSON(filepath.Join(dir, result.PlanFile), tree.Plan))
			s.Check(result.WriteJSON(filepath.Join(dir, result.ResultFile), result.Summarize(tree.Plan, tree.Trials)))
			s.Check(os.Remove(filepath.Join(dir, result.SumsFile)))
		}
	}
	l := libraryOf(t, s.In("jobs"))
	jobs, err := l.Jobs(t.Context())
	s.Check(err)
	sets := map[string]string{}
	for _, job := range jobs {
		if page.IsShards(job.Name) {
			sets[job.JobName] = job.Name
		}
	}
	server := viewer.New(l, "Jobs", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
	for below, want := range map[string][]string{
		"": {"all 2 shards", "Compared", name, "broken"},
		"t/" + strings.ReplaceAll(s.Specs[0].Key.Dir(), " ", "%20") + "/": {"Side by side with the baseline", "said in the baseline", "said now"},
	} {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, server.URL(sets["nightly"])+below, http.NoBody))
		for _, text := range want {
			if !strings.Contains(w.Body.String(), text) || w.Code != http.StatusOK {
				t.Errorf("the page %q of %v is %d, without %q", below, sets, w.Code, text)
			}
		}
	}
}

// Shards of different commits, a single shard, and shards with a merge of them are not shown as one
// job.
func TestShardsOfDifferentJobsAreNotShownAsOne(t *testing.T) {
	shard := func(address string, index int, commit, digest string) foundJob {
		return foundJob{ListedJob{Name: "nightly", Shard: &result.Shard{Index: index, Total: 3}, Commit: &commit, digest: digest}, address}
	}
	whole := foundJob{ListedJob{Name: "nightly", digest: "merged"}, "whole"}
	sets := shardSets([]foundJob{
		shard("a", 1, "one", "x"), shard("b", 2, "one", "x"), shard("c", 2, "one", "x"), shard("d", 1, "two", "x"), shard("e", 3, "one", "y"),
		shard("f", 1, "one", "merged"), shard("g", 2, "one", "merged"), whole, shard("h", 1, "one", ""), shard("i", 2, "one", ""), shard("j", 4, "two", "x"),
	})
	if len(sets) != 1 || len(sets[0].all) != 3 || len(sets[0].shards) != 2 || sets[0].shards[1].address != "b" {
		t.Errorf("the sets are %+v", sets)
	}
}

// Each job of a directory has one address, whatever it is called.
func TestEachJobHasItsOwnAddress(t *testing.T) {
	top := t.TempDir()
	names := map[string]string{"a~b": "tilde", "a/b": "below", `back\slash`: "backslash", "not\xffutf-8": "bytes", "100%": "percent", "a%7Eb": "escaped", "x.zip/in": "directory"}
	for name, job := range names {
		storedJob(t, filepath.Join(top, "jobs", name), job)
	}
	storedJob(t, filepath.Join(top, "made", "in"), "packed")
	storedJob(t, filepath.Join(top, "made", ".h", "in"), "hidden")
	storedJob(t, filepath.Join(top, "hidden", ".h", "in"), "hidden")
	zipped(t, filepath.Join(top, "jobs", "z.zip"), filepath.Join(top, "made"))
	zipped(t, filepath.Join(top, "jobs", "h.zip"), filepath.Join(top, "hidden"))
	l := libraryOf(t, filepath.Join(top, "jobs"))
	l.patience = 0
	listed, err := l.Jobs(t.Context())
	if err != nil || len(listed) != len(names)+2 {
		t.Fatalf("the jobs are %+v, %v", listed, err)
	}
	server := viewer.New(l, "Jobs", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
	index := httptest.NewRecorder()
	server.ServeHTTP(index, httptest.NewRequest(http.MethodGet, server.URL(""), http.NoBody))
	for _, job := range listed {
		if job.Name == "h.zip" {
			if !strings.Contains(job.Reason, "there is no job in this archive") {
				t.Errorf("the archive with a hidden job is %+v", job)
			}
			continue
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, server.URL(job.Name), http.NoBody))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<code>"+job.JobName+"</code>") || job.JobName == "hidden" {
			t.Errorf("%s (%s) is %d", job.Name, job.JobName, w.Code)
		}
		if !strings.Contains(index.Body.String(), `href="./`+page.JobAddress(job.Name)+`"`) {
			t.Errorf("the index has no link to %s", job.Name)
		}
	}
	host := *l.h
	if done, err := ExportSite(t.Context(), &host, SiteRequest{Path: filepath.Join(top, "jobs"), To: filepath.Join(top, "site")}); err != nil || done.Jobs != len(names)+1 {
		t.Errorf("exported: %+v, %v", done, err)
	}
}
