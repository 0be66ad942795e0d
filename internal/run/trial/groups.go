package trial

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// Group holds the trials of a task that a judge with scope: group ranks. It is owed: they have not
// been ranked yet, or others were ranked.
type Group struct {
	Judge   Judge
	members []member // sorted by key
	id      string   // see result.GroupRun
}

// member is a trial of a group.
type member struct {
	spec  Spec
	trial result.Trial
	dir   string
	// left is set if the trial is not ranked, because the judge's condition (when) is not met.
	left bool
}

// GroupsOf returns the groups that are owed among the trials of a job: those whose trials have all
// ended. dir returns the directory of a trial. Confirmation attempts, and trials that ended before
// they could be judged, are in no group.
func GroupsOf(specs []Spec, trials []result.Trial, digests Digests, dir func(result.Key) string) []Group {
	ended := make(map[result.Key]result.Trial, len(trials))
	for _, t := range trials {
		ended[t.Key] = t
	}
	type of struct{ dataset, task, judge string }
	groups := map[of]*Group{}
	open := map[of]bool{}
	for _, s := range specs {
		for _, j := range s.GroupJudges {
			at := of{s.Key.Dataset, s.Key.Task, j.Name}
			t, ok := ended[s.Key]
			switch {
			case !ok || t.Error != nil && t.Error.Type == result.Cancelled:
				open[at] = true
				continue
			case t.Confirmation || len(t.Agents) == 0:
				continue
			}
			if groups[at] == nil {
				groups[at] = &Group{Judge: j}
			}
			groups[at].members = append(groups[at].members, member{spec: s, trial: t, dir: dir(s.Key)})
		}
	}
	var out []Group
	for at, g := range groups {
		if open[at] {
			continue
		}
		g.identify(digests)
		if !g.ranked() {
			out = append(out, *g)
		}
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(a.members[0].trial.Key.Compare(b.members[0].trial.Key), cmp.Compare(a.Judge.Name, b.Judge.Name))
	})
	return out
}

// identify sorts the members and sets the group's id.
func (g *Group) identify(digests Digests) {
	slices.SortFunc(g.members, func(a, b member) int { return a.trial.Key.Compare(b.trial.Key) })
	h := sha256.New()
	fmt.Fprintln(h, digests.JudgeOf(g.Judge.Spec))
	for i := range g.members {
		m := &g.members[i]
		applies, err := g.Judge.Applies(m.facts())
		m.left = err == nil && !applies
		fmt.Fprintf(h, "%q %s %v\n", m.trial.Key, m.trial.Timestamps.StartedAt.Format(time.RFC3339Nano), m.left)
	}
	g.id = hex.EncodeToString(h.Sum(nil)[:16])
}

// facts returns the values that a condition can use.
func (m member) facts() judge.Facts {
	f := judge.Facts{Tests: m.trial.TestsReward, Rewards: map[string]float64{}}
	for name, value := range m.trial.Rewards {
		if owner, _, _ := strings.Cut(name, "."); !m.spec.hasJudge(owner) {
			f.Rewards[name] = value
		}
	}
	return f
}

// run returns the record of a judge in the trial.
func (m member) run(name string) (result.AgentRun, bool) {
	i := slices.IndexFunc(m.trial.Agents, func(a result.AgentRun) bool { return a.Role == result.RoleJudge && a.Name == name })
	if i < 0 {
		return result.AgentRun{}, false
	}
	return m.trial.Agents[i], true
}

// ranked reports whether all members have been ranked in this group.
func (g *Group) ranked() bool {
	return !slices.ContainsFunc(g.members, func(m member) bool {
		run, ok := m.run(g.Judge.Name)
		return !ok || run.Group == nil || run.Group.ID != g.id || run.Error != nil
	})
}

// candidates returns the members that are ranked.
func (g *Group) candidates() []member {
	return slices.DeleteFunc(slices.Clone(g.members), func(m member) bool { return m.left })
}

// String names the group.
func (g *Group) String() string {
	key := g.members[0].trial.Key
	return fmt.Sprintf("%s/%s", key.Dataset, key.Task)
}

// Ranked is the outcome of ranking a group.
type Ranked struct {
	Trials []result.Trial // of the group, with their scores
	// Failed is the reason why there is no ranking; nil if there is one, or if fewer than two
	// trials could be ranked.
	Failed *result.Error
}

// groupRecord is the content of result.GroupFile.
type groupRecord struct {
	ID     string              `json:"id"`
	Run    result.AgentRun     `json:"run"` // of the judge, with all orders
	Scores map[string]*float64 `json:"scores"`
	Label  map[string]string   `json:"labels"` // in the first order, by the trial
}

// Kept returns the trials with their scores if an earlier execution left the ranking of the group
// on disk.
func (g *Group) Kept() ([]result.Trial, bool) {
	files := g.members[0]
	kept, err := readGroup(filepath.Join(files.dir, result.JudgesDir, g.Judge.Name))
	if err != nil || kept.ID != g.id || kept.Run.Error != nil {
		return nil, false
	}
	trials := g.apply(kept)
	for i := range trials {
		if t := &trials[i]; t.Reverified != nil { // another job has paid for it
			again := *t.Reverified
			run, _ := member{trial: *t}.run(g.Judge.Name)
			again.AgentCosts.Judges = again.AgentCosts.Judges.Plus(run.Cost)
			t.Reverified = &again
		}
	}
	return trials, true
}

// JudgeGroup runs a judge that ranks a group. If ctx ends meanwhile, it returns no trials. It
// changes only files of the judge.
func (r *Runner) JudgeGroup(ctx context.Context, g Group) (out Ranked) {
	files := g.members[0]
	dir := filepath.Join(files.dir, result.JudgesDir, g.Judge.Name)
	x := r.execution(files.spec, files.dir, r.opts.Now(), result.Trial{})
	defer func() {
		if p := recover(); p != nil {
			rec := record{secrets: x.secrets}
			func() { defer rec.recoverPanic(); panic(p) }()
			out.Failed = rec.trial.Error
		}
	}()
	x.sink, x.spec.Judging = func(event.Event) {}, &Judging{} // earlier executions' costs count
	var stop func()
	x.deadlines, stop = newDeadlines(ctx, x.opts, x.recordRetry)
	defer stop()
	made := x.rank(environment.WithRetryNotify(ctx, x.recordRetry), &g)
	if ctx.Err() != nil {
		return Ranked{}
	}
	if err := writeGroup(dir, made); err != nil && made.Run.Error == nil {
		made.Run.Warnings = append(made.Run.Warnings, fmt.Sprintf("%s could not be written: %v", result.GroupFile, err))
	}
	return Ranked{Trials: g.apply(made), Failed: made.Run.Error}
}

// rank runs the judge once for each order. made has an error if one of them failed.
func (x *execution) rank(ctx context.Context, g *Group) (made groupRecord) {
	j := g.Judge
	made = groupRecord{ID: g.id, Scores: map[string]*float64{}, Label: map[string]string{}}
	made.Run = result.AgentRun{
		Name: j.Name, Role: result.RoleJudge, Agent: j.Spec.Agent, Model: j.Agent.Model, Placement: string(j.Place()), Digest: x.opts.Digests.JudgeOf(j.Spec),
		Group: &result.GroupRun{ID: g.id, Files: x.spec.Key, Ignored: j.OnError == judge.Ignore},
	}
	run := &made.Run
	fail := func(kind result.ErrorType, format string, args ...any) {
		run.Error = &result.Error{Type: kind, Message: failure.Hide(x.secrets, fmt.Sprintf(format, args...))}
	}
	shown := g.candidates()
	switch {
	case len(shown) < 2:
		run.Skipped = true
		if j.When == "" { // with a condition, that is expected
			run.Warnings = append(run.Warnings, judge.ErrFewCandidates.Error())
		}
		return made
	case len(shown) > judge.MaxCandidates:
		fail(result.JudgeFailed, "the judge %s cannot rank %d trials of %s: %v", j.Name, len(shown), g, judge.ErrManyCandidates)
		return made
	}
	evidences := make([]*evidence, len(shown))
	for i, m := range shown {
		e, err := x.evidenceOf(m)
		if err != nil {
			fail(result.JudgeFailed, "the judge %s cannot rank %s: what it sees of %s: %v", j.Name, g, m.trial.Key, err)
			return made
		}
		evidences[i] = e
	}
	began := x.now()
	run.StartedAt = new(result.Stamp(began))
	defer func() { run.Sec = new(result.Seconds(x.now().Sub(began))) }()
	orders := make([]order, j.Rankings())
	var all sync.WaitGroup
	for nth := range orders {
		all.Go(func() { orders[nth] = x.rankOrder(ctx, g, shown, evidences, nth) })
	}
	all.Wait()
	for _, o := range orders {
		x.addOrder(run, o)
		if f := o.failed; f != nil && run.Error == nil {
			fail(f.Type, "%s", strings.Join(strings.Fields(f.Message), " "))
		}
	}
	if run.Error != nil {
		return made
	}
	beaten := make(map[string]int, len(shown)) // twice the number of beaten candidates; 1 for each equally good one
	for nth, o := range orders {
		wins := judge.Beaten(o.ranks)
		keys := make([]result.Key, len(shown))
		for place, i := range o.order {
			keys[place] = shown[i].trial.Key
			beaten[keys[place].String()] += wins[place]
			if nth == 0 {
				made.Label[keys[place].String()] = judge.Label(place)
			}
		}
		run.Group.Orders = append(run.Group.Orders, result.GroupOrder{Shown: keys, Ranks: o.ranks})
	}
	for key, n := range beaten {
		made.Scores[key] = new(float64(n) / float64(2*(len(shown)-1)*len(orders)))
	}
	return made
}

// order is the outcome of a ranking in one order.
type order struct {
	judged
	order []int // the candidates in the order shown, by index
	ranks []int // in this order
}

// rankOrder runs the judge on the candidates in the nth order.
func (x *execution) rankOrder(ctx context.Context, g *Group, shown []member, evidences []*evidence, nth int) (out order) {
	j := g.Judge
	seed := sha256.Sum256([]byte(g.String() + "\x00" + j.Name))
	out.order = judge.Order(len(shown), nth, binary.LittleEndian.Uint64(seed[:]))
	in := &groupEvidence{}
	for _, i := range out.order {
		in.candidates = append(in.candidates, evidences[i])
	}
	out.run = result.AgentRun{Name: j.Name}
	below := j.Name
	if nth > 0 {
		below = fmt.Sprintf("%s.order-%d", j.Name, nth+1)
	}
	select {
	case x.judges <- struct{}{}:
		defer func() { <-x.judges }()
	case <-ctx.Done():
		return out
	}
	x.judgeIn(ctx, j, in, below, &out.judged)
	out.ranks = in.ranks
	return out
}

// addOrder adds the cost, usage and warnings of a ranking in one order to the record of the judge.
func (x *execution) addOrder(run *result.AgentRun, o order) {
	run.Cost = run.Cost.Plus(o.run.Cost)
	run.Group.EnvironmentCost = run.Group.EnvironmentCost.Plus(o.env)
	run.Usage = run.Usage.Plus(o.run.Usage)
	run.Attempts = max(run.Attempts, o.run.Attempts)
	run.StopCondition, run.IsTruncated = cmp.Or(run.StopCondition, o.run.StopCondition), run.IsTruncated || o.run.IsTruncated
	run.Warnings = append(run.Warnings, o.run.Warnings...)
	if run.Verdict == nil {
		run.Verdict, run.Reason, run.Trajectory = o.run.Verdict, o.run.Reason, o.run.Trajectory
	}
}

// evidenceOf returns the evidence of a trial that has ended.
func (x *execution) evidenceOf(m member) (*evidence, error) {
	before, err := readUnjudged(m.dir)
	if err != nil {
		return nil, err
	}
	of := x.Runner.execution(m.spec, m.dir, x.now(), result.Trial{})
	of.trial = before
	of.trial.TestsReward = before.Reward
	return of.writeEvidence()
}

// apply returns the members with the judge's scores and records.
func (g *Group) apply(made groupRecord) []result.Trial {
	var out []result.Trial
	for _, m := range g.members {
		key := m.trial.Key.String()
		run := made.Run
		group := *made.Run.Group
		run.Group = &group
		if m.trial.Key != group.Files { // the cost and usage of the ranking count once
			run.Usage, run.StartedAt, run.Sec, run.Trajectory, run.Warnings, run.Attempts, run.Verdict = nil, nil, nil, "", nil, 0, nil
			group.Orders = nil
		}
		run.Cost, group.EnvironmentCost = g.share(made.Run.Cost, m), g.share(made.Run.Group.EnvironmentCost, m)
		run.Skipped = made.Run.Skipped || m.left
		if run.Score = made.Scores[key]; run.Score == nil {
			run.Reason = ""
		} else {
			run.Reason = fmt.Sprintf("This trial is %s. %s", made.Label[key], run.Reason)
		}
		out = append(out, m.with(run))
	}
	return out
}

// share returns a member's part of a cost. The ranked members bear equal parts, whichever agent
// comes first. Without any, the first member, which has the files of the judge, bears all.
func (g *Group) share(cost result.USD, m member) result.USD {
	amount, known := cost.Reported()
	ranked := len(g.candidates())
	switch {
	case !known:
		return result.USD{}
	case ranked == 0 && m.trial.Key == g.members[0].trial.Key:
		return cost
	case ranked == 0 || m.left:
		return result.USD{}
	}
	return result.Dollars(amount / float64(ranked))
}

// with returns the trial with a judge's record, in place of its earlier one.
func (m member) with(run result.AgentRun) result.Trial {
	t := m.trial.WithoutGroups(run.Name)
	t.Agents = append(slices.Clone(t.Agents), run)
	t.Costs.Judges = t.Costs.Judges.Plus(run.Cost)
	if run.Group.EnvironmentCost.Amount() > 0 {
		t.Costs.Environment = t.Costs.Environment.Plus(run.Group.EnvironmentCost)
	}
	result.SumCosts(&t)
	t.Scores, t.Rewards = maps.Clone(t.Scores), maps.Clone(t.Rewards)
	if t.Scores == nil {
		t.Scores = map[string]*float64{}
	}
	if t.Scores[run.Name] = run.Score; run.Score != nil {
		if t.Rewards == nil {
			t.Rewards = map[string]float64{}
		}
		t.Rewards[run.Name] = *run.Score
	}
	t.Warnings = slices.Clone(t.Warnings)
	for _, w := range run.Warnings {
		t.Warnings = append(t.Warnings, fmt.Sprintf("the judge %s: %s", run.Name, w))
	}
	if run.Error != nil {
		t.Warnings = append(t.Warnings, fmt.Sprintf("the judge %s gave no ranking (%s): its score is null", run.Name, run.Error.Type))
	}
	return t
}

// writeGroup writes a ranking into the directory of a judge, which need not exist: the judge did
// not run if there was nothing to rank.
func writeGroup(dir string, made groupRecord) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return result.WriteJSON(filepath.Join(dir, result.GroupFile), made)
}

// readGroup reads the ranking in the directory of a judge.
func readGroup(dir string) (groupRecord, error) {
	r, err := readRecord[groupRecord](filepath.Join(dir, result.GroupFile))
	if err == nil && r.Run.Group == nil {
		err = errors.New(result.GroupFile + " has no group")
	}
	return r, err
}
