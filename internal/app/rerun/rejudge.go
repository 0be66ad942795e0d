package rerun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/linktree"
	"github.com/org/rollout-action/internal/run/job/reuse"
	"github.com/org/rollout-action/internal/run/trial"
)

// maxTimes bounds RejudgeRequest.Times.
const maxTimes = 100

// RejudgeRequest is the request of Rejudge.
type RejudgeRequest struct {
	Dir     string            // of the job whose trials are judged again
	Trials  []string          // parts of the names of trials; empty: all
	Judges  []string          // names of the judges that judge again; empty: all that can
	Times   int               // how often, from 1
	Model   string            // the model that judges, by its name in the job; "": that of each judge
	JobFile string            // as in ResumeRequest; its judges may differ
	Job     stages.JobRequest // without File
	Name    string            // of the first new job; "": that of the old one, with "-rejudged"
}

// Rejudged compares verdicts about the same trials.
type Rejudged struct {
	Runs   []JudgedRun     `json:"runs"` // the job that was judged again is the first if it has verdicts of these judges
	Judges []RejudgedJudge `json:"judges"`
	Cost   result.USD      `json:"cost"` // of judging again
	// Failed are the trials that have an error now; Cancelled: not all trials were judged.
	Failed    int  `json:"failed"`
	Cancelled bool `json:"cancelled,omitempty"`
}

// JudgedRun is a job with verdicts.
type JudgedRun struct {
	Dir   string `json:"dir"`
	Again bool   `json:"again"` // it was judged again
}

// RejudgedJudge holds the scores of a judge or of one of its criteria. Reasons are untrusted text.
type RejudgedJudge struct {
	Name   string   `json:"name"`
	Models []string `json:"models"` // of the runs; "": it did not judge there
	judge.Stability
	Trials []judge.Series `json:"series"`
}

// Rejudge runs the judges of a job again on the files that its trials left: no agent and no test
// runs. The verdicts go into new jobs next to the old one, which does not change. A Rejudged that
// is not nil is valid even with an error.
func Rejudge(ctx context.Context, h *host.Host, req RejudgeRequest) (*Rejudged, error) {
	if req.Times < 1 || req.Times > maxTimes {
		return nil, host.Usagef("--times %d: want a number from 1 to %d", req.Times, maxTimes)
	}
	if err := freeNames(h, req); err != nil {
		return nil, err
	}
	quiet := *h
	quiet.Finished = nil // the comparison replaces the report
	var runs []run
	var failed error
	for n := 0; n < req.Times && failed == nil && ctx.Err() == nil; n++ {
		one := req
		one.Name = req.nameOf(n)
		var r, before run
		if r, before, failed = rejudge(ctx, &quiet, one, n == 0); r.dir == "" {
			return nil, failed
		}
		if n == 0 && before.judged() {
			runs = append(runs, before)
		}
		runs = append(runs, r)
	}
	out := compareRuns(runs, req)
	out.Cancelled = ctx.Err() != nil
	return &out, failed
}

// nameOf returns the name of the new job number n, from 0; "": the old name with a suffix.
func (r RejudgeRequest) nameOf(n int) string {
	if n == 0 || r.Name == "" {
		return r.Name
	}
	return fmt.Sprintf("%s-%d", r.Name, n+1)
}

// freeNames returns an error if one of the new jobs cannot have its name, before the first of them
// costs anything. Names that Rollout chooses are always free.
func freeNames(h *host.Host, req RejudgeRequest) error {
	if req.Name == "" {
		return nil
	}
	parent := filepath.Dir(filepath.Clean(req.Dir))
	for n := range req.Times {
		if dir := filepath.Join(parent, req.nameOf(n)); exists(h.Path(dir)) {
			return host.Usagef("%s exists already: a job is never written over; choose another --name, or remove the directory (nothing was judged)", host.Clean(dir))
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// run is a job with verdicts about trials.
type run struct {
	dir    string
	again  bool
	trials map[result.Key]result.Trial
}

func (r run) judged() bool {
	for _, t := range r.trials {
		if len(t.Agents) > 0 {
			return true
		}
	}
	return false
}

// rejudge runs judges once. before is the old job, with the trials that are judged again; with
// explain these are reported. The run has a directory if a job was begun.
func rejudge(ctx context.Context, h *host.Host, req RejudgeRequest, explain bool) (again, before run, err error) {
	again.again = true
	req.Job.JudgeModel, req.Job.Judges = req.Model, req.Judges
	q, err := planFollowUp(ctx, h, stages.ResumeRequest{Dir: req.Dir, JobFile: req.JobFile, Job: req.Job}, req.Trials, "judged")
	if err != nil {
		return again, before, err
	}
	defer q.Close()
	q.OnlyJudges = true
	if err := q.place(req.Name, "-rejudged"); err != nil {
		return again, before, err
	}
	before = run{dir: q.Reverifies, trials: q.before()}
	if err := q.sortJudged(req, before.trials, explain); err != nil {
		return again, before, err
	}
	if explain {
		h.Output.Warnings(q.Warnings)
	}
	provider, err := q.Connect(ctx, "")
	if err != nil {
		return again, before, err
	}
	defer provider.Close()
	o, err := q.Open(ctx, provider, nil)
	if err != nil {
		return again, before, err
	}
	again.dir = o.Dir()
	o.Todo = q.again
	o.Runner = func(r job.Runner) job.Runner { return judgesAgain{r, h.Path(q.Reverifies)} }
	o.Earlier, err = reuse.TakeOver(ctx, o.Tree, q.carried, job.Instructions(o.Own(), redact.New(o.Secrets)))
	if err != nil && ctx.Err() == nil {
		return again, before, errors.Join(err, o.Tree.Close())
	}
	_, err = o.RunAndReport(ctx, nil)
	trials, _ := result.ReadTrials(h.Path(again.dir), job.Keys(q.again))
	again.trials = map[result.Key]result.Trial{}
	for _, t := range trials {
		again.trials[t.Key] = t
	}
	wanted := map[result.Key]result.Trial{}
	for _, s := range q.again {
		wanted[s.Key] = before.trials[s.Key]
	}
	before.trials = wanted
	return again, before, err
}

// sortJudged decides which trials are judged again, and by which judges.
func (q *followUp) sortJudged(req RejudgeRequest, before map[result.Key]result.Trial, explain bool) error {
	if err := q.checkJudgeNames(req.Judges); err != nil {
		return err
	}
	source, decided, kept := q.source(), 0, map[string]bool{}
	for _, s := range q.Specs {
		t, ok := before[s.Key]
		if !ok {
			q.miss(s.Key, "it has no result")
			continue
		}
		if endedBefore(t) {
			decided++
			q.carried = append(q.carried, source.Take(t))
			continue
		}
		var chosen []string
		for _, j := range s.Judges {
			switch asked := len(req.Judges) == 0 || slices.Contains(req.Judges, j.Name); {
			case asked && j.Place() == judge.InTrial && len(req.Judges) > 0:
				return host.Usagef("--judge %s: it works in the agent's environment, which is gone; a call and a judge with placement: fresh can judge again", j.Name)
			case asked && j.Place() == judge.InTrial:
				kept[j.Name] = true
			case asked:
				chosen = append(chosen, j.Name)
			}
		}
		for _, j := range s.GroupJudges {
			if len(req.Judges) == 0 || slices.Contains(req.Judges, j.Name) {
				chosen = append(chosen, j.Name)
			}
		}
		if len(chosen) == 0 {
			q.miss(s.Key, "none of its judges can judge again from the files on disk")
			continue
		}
		again, why := trial.Rejudging(s, t, filepath.Join(q.Host.Path(q.Reverifies), filepath.FromSlash(s.Key.Dir())), chosen)
		if again == nil {
			q.miss(s.Key, why)
			continue
		}
		again.Job, again.From = q.stored.Plan.JobName, q.Reverifies
		s.Judging = again
		q.again = append(q.again, s)
	}
	if explain {
		q.explainJudged(decided, kept)
	}
	if len(q.again) == 0 {
		return host.Usagef("%s has no trial that can be judged again", host.Clean(q.Reverifies))
	}
	return nil
}

// endedBefore reports whether a trial ended, not by a cancel, before it could be judged.
func endedBefore(t result.Trial) bool {
	return t.Error != nil && t.Reward == nil && t.TestsReward == nil && t.Error.Type.Fault() != result.FaultJudge && t.Error.Type != result.Cancelled
}

// checkJudgeNames refuses names that no judge has.
func (q *followUp) checkJudgeNames(names []string) error {
	var known []string
	for _, s := range q.Specs {
		for _, j := range slices.Concat(s.Judges, s.GroupJudges) {
			if !slices.Contains(known, j.Name) {
				known = append(known, j.Name)
			}
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			hint := cmp.Or(diag.DidYouMean(name, known), "there are: "+strings.Join(known, ", "))
			if len(known) == 0 {
				hint = "there are no judges"
			}
			return host.Usagef("--judge %s: the trials have no such judge (%s)", host.Clean(name), host.Clean(hint))
		}
	}
	return nil
}

// explainJudged reports how many trials are judged again or taken over.
func (q *followUp) explainJudged(decided int, kept map[string]bool) {
	out := q.Host.Output
	if len(q.again) > 0 {
		host.Linef(out, "Judging %s of %s again", plural.Count(len(q.again), "trial"), host.Clean(q.Reverifies))
	}
	if decided > 0 {
		host.Linef(out, "%s that ended before the judges %s taken over", plural.Count(decided, "trial"), plural.Are(decided))
	}
	for _, j := range slices.Sorted(maps.Keys(kept)) {
		host.Linef(out, "note: the judge %s works in the agent's environment, which is gone: its earlier verdicts stay", host.Clean(j))
	}
	q.explainMissed("judged", false)
}

// judgesAgain is a Runner that links the files of the earlier trial into the new one's directory.
type judgesAgain struct {
	job.Runner
	dir string // of the earlier job
}

// Run implements job.Runner.
func (j judgesAgain) Run(ctx context.Context, spec trial.Spec, dir string) trial.Outcome {
	if err := j.link(spec, dir); err != nil {
		t := spec.Judging.Before
		t.Reward = nil
		t.Error = &result.Error{Type: result.InternalError, Message: fmt.Sprintf("the files of the earlier trial cannot be used: %v", err)}
		return trial.Outcome{Trial: t}
	}
	return j.Runner.Run(ctx, spec, dir)
}

// link links the files of the earlier trial, without those of judges that judge again.
func (j judgesAgain) link(spec trial.Spec, dir string) error {
	if err := os.Remove(dir); err != nil {
		return err
	}
	source, err := nofollow.OpenDirBelow(j.dir, strings.Split(spec.Key.Dir(), "/")...)
	if err != nil {
		return err
	}
	defer source.Close()
	parent, err := nofollow.OpenDir(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	linker := linktree.Linker{Without: result.ResultFile}
	if err := linker.Link(source, parent, filepath.Base(dir)); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, result.ErrorFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	judges := filepath.Join(dir, result.JudgesDir)
	entries, err := os.ReadDir(judges)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if name := e.Name(); name == filepath.Base(result.JudgeInputsDir) || spec.Judging.Keeps(name) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(judges, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// compareRuns compares the verdicts of runs, except those of judges that cannot judge again.
func compareRuns(runs []run, req RejudgeRequest) (out Rejudged) {
	keys := map[result.Key]bool{}
	for _, r := range runs {
		out.Runs = append(out.Runs, JudgedRun{Dir: r.dir, Again: r.again})
		for key, t := range r.trials {
			keys[key] = true
			if r.again && t.Error != nil {
				out.Failed++
			}
			if r.again {
				out.Cost = out.Cost.Plus(t.Spent().Judges)
			}
		}
	}
	judges := map[string]*RejudgedJudge{}
	for _, key := range slices.SortedFunc(maps.Keys(keys), result.Key.Compare) {
		for i, r := range runs {
			for _, a := range r.trials[key].Agents {
				if a.Role != result.RoleJudge || a.Placement == string(judge.InTrial) || len(req.Judges) > 0 && !slices.Contains(req.Judges, a.Name) {
					continue
				}
				scores := map[string]*float64{a.Name: a.Score}
				for criterion, value := range a.Criteria {
					scores[a.Name+"."+criterion] = &value
				}
				for name, score := range scores {
					if judges[name] == nil {
						judges[name] = &RejudgedJudge{Name: name, Models: make([]string, len(runs))}
					}
					judges[name].add(key.String(), i, a, score)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(judges)) {
		j := judges[name]
		j.Stability = judge.StabilityOf(j.Trials, len(runs))
		out.Judges = append(out.Judges, *j)
	}
	return out
}

// Unstable returns the trials whose scores differ, those that differ most first.
func (j *RejudgedJudge) Unstable() []judge.Series { return judge.Unstable(j.Trials) }

// add adds the score that a judge gave a trial in a run. Trials must be added in order.
func (j *RejudgedJudge) add(key string, run int, a result.AgentRun, score *float64) {
	if a.Usage != nil {
		j.Models[run] = cmp.Or(j.Models[run], a.Usage.Requested)
	}
	if n := len(j.Trials); n == 0 || j.Trials[n-1].Trial != key {
		j.Trials = append(j.Trials, judge.Series{Trial: key, Scores: make([]*float64, len(j.Models)), Reasons: make([]string, len(j.Models))})
	}
	s := &j.Trials[len(j.Trials)-1]
	s.Scores[run], s.Reasons[run] = score, a.Reason
}
