package judging

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/redact"
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
	subject Subject
	trial   result.Trial
	dir     string
	// left is set if the trial is not ranked, because the judge's condition (when) is not met.
	left bool
}

// GroupsOf returns the groups that are pending among the trials of a job: those whose trials have
// all ended. digest returns the digest of a judge, and dir the directory of a trial. Confirmation
// attempts, and trials that ended before they could be judged, are in no group.
func GroupsOf(subjects []Subject, trials []result.Trial, digest func(judge.Spec) string, dir func(result.Key) string) []Group {
	ended := make(map[result.Key]result.Trial, len(trials))
	for _, t := range trials {
		ended[t.Key] = t
	}
	type of struct{ dataset, task, judge string }
	groups := map[of]*Group{}
	open := map[of]bool{}
	for _, s := range subjects {
		for _, j := range s.Groups {
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
			groups[at].members = append(groups[at].members, member{subject: s, trial: t, dir: dir(s.Key)})
		}
	}
	var out []Group
	for at, g := range groups {
		if open[at] {
			continue
		}
		g.identify(digest)
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
func (g *Group) identify(digest func(judge.Spec) string) {
	slices.SortFunc(g.members, func(a, b member) int { return a.trial.Key.Compare(b.trial.Key) })
	h := sha256.New()
	fmt.Fprintln(h, digest(g.Judge.Spec))
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
		if owner, _, _ := strings.Cut(name, "."); !m.subject.hasJudge(owner) {
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

// Files returns the key and the directory of the trial that has the files of the judge.
func (g *Group) Files() (result.Key, string) { return g.members[0].trial.Key, g.members[0].dir }

// evidence writes the evidence of a trial that has ended.
func (m member) evidence(secrets *redact.Redactor) (*Evidence, error) {
	before, err := readUnjudged(m.dir)
	if err != nil {
		return nil, err
	}
	before.TestsReward = before.Reward
	return m.subject.WriteEvidence(m.dir, &before, "", secrets)
}

// Ranked is the outcome of ranking a group.
type Ranked struct {
	Trials []result.Trial // of the group, with their scores
	// Failed is the reason why there is no ranking; nil if there is one, or if fewer than two
	// trials could be ranked.
	Failed *result.Error
}

// Ranking is the content of result.GroupFile.
type Ranking struct {
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

// apply returns the members with the judge's scores and records.
func (g *Group) apply(made Ranking) []result.Trial {
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

// Keep writes a ranking of the group into the directory of the judge, and returns its outcome.
func (g *Group) Keep(made Ranking) Ranked {
	dir := filepath.Join(g.members[0].dir, result.JudgesDir, g.Judge.Name)
	if err := writeGroup(dir, made); err != nil && made.Run.Error == nil {
		made.Run.Warnings = append(made.Run.Warnings, fmt.Sprintf("%s could not be written: %v", result.GroupFile, err))
	}
	return Ranked{Trials: g.apply(made), Failed: made.Run.Error}
}

// writeGroup writes a ranking into the directory of a judge, which need not exist: the judge did
// not run if there was nothing to rank.
func writeGroup(dir string, made Ranking) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return result.WriteJSON(filepath.Join(dir, result.GroupFile), made)
}

// readGroup reads the ranking in the directory of a judge.
func readGroup(dir string) (Ranking, error) {
	r, err := readRecord[Ranking](filepath.Join(dir, result.GroupFile))
	if err == nil && r.Run.Group == nil {
		err = errors.New(result.GroupFile + " has no group")
	}
	return r, err
}
