package merge

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/job"
)

// selectShards selects the directories that are merged, and reads the plan that they share.
func (m *merge) selectShards(found []*shardDir) error {
	found, err := m.withoutMerges(found)
	if err != nil {
		return err
	}
	m.found = found
	found = m.withoutEarlierSplits(found)
	first := found[0]
	for _, p := range found[1:] {
		if p.plan.Digest != first.plan.Digest || p.total != first.total || p.plan.Split != first.plan.Split {
			return refuseDifferent(first, p)
		}
	}
	m.total = first.total
	m.parts = m.oneOfEach(found)
	m.base = slices.MinFunc(m.parts, func(a, b *shardDir) int {
		return cmp.Or(a.plan.StartedAt.Compare(b.plan.StartedAt), cmp.Compare(a.index, b.index))
	})
	m.noteCommits()
	m.noteVersions()
	m.noteUnchecked()
	return m.readPlan()
}

// named returns the directories of the job that Options.Name names. Patterns of artifacts may have
// found those of other jobs.
func (m *merge) named(found []*shardDir) ([]*shardDir, error) {
	if m.opts.Name == "" {
		return found, nil
	}
	var own []*shardDir
	var others []string
	for _, p := range found {
		name := p.plan.JobName
		if b := p.plan.Beside; b != nil && b.Baseline {
			name = b.JobName
		}
		if config.NameMatches(m.opts.Name, name) {
			own = append(own, p)
			continue
		}
		if !m.opts.Baseline { // the merge of the job has reported it
			m.note("%s is of the job %s, so it is not merged", p.label, untrusted.Names([]string{name}))
		}
		if !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	if len(own) == 0 {
		return nil, job.Refuse("the shards that were found are of the job %s, not of the job %s that is to be merged", untrusted.Names(others), untrusted.Names([]string{m.opts.Name}))
	}
	return own, nil
}

// side returns the directories of the job, or those of the baseline that was run with it, if there
// are both.
func (m *merge) side(found []*shardDir) ([]*shardDir, error) {
	var head, baseline []*shardDir
	paired := false
	for _, p := range found {
		if b := p.plan.Beside; b != nil && b.Baseline {
			baseline = append(baseline, p)
		} else {
			head = append(head, p)
			paired = paired || b != nil
		}
	}
	switch {
	case m.opts.Baseline && len(baseline) == 0:
		return nil, job.Refuse("there is none of its shards")
	case m.opts.Baseline:
		m.others = head
		return baseline, nil
	case paired:
		m.others = baseline
		return head, nil
	}
	return found, nil
}

// withoutMerges returns the directories that no merge wrote. It refuses to merge only merged jobs.
func (m *merge) withoutMerges(found []*shardDir) ([]*shardDir, error) {
	var shards, merged []*shardDir
	for _, p := range found {
		if _, err := os.Lstat(filepath.Join(p.dir, result.MergeFile)); err == nil {
			merged = append(merged, p)
		} else {
			shards = append(shards, p)
		}
	}
	if len(shards) == 0 {
		return nil, job.Refuse("%s: is merged already (rollout report reports on it again)", merged[0].label)
	}
	for _, p := range merged {
		m.note("%s is the result of an earlier merge, so it is not merged again", p.label)
	}
	return shards, nil
}

// withoutEarlierSplits leaves out the shards of an earlier attempt that divided the same plan into
// another number of shards, whose artifacts a workflow that is run again finds next to its own. If
// the times do not show which division is the newest, all stay.
func (m *merge) withoutEarlierSplits(found []*shardDir) []*shardDir {
	newest := slices.MaxFunc(found, func(a, b *shardDir) int { return a.plan.StartedAt.Compare(b.plan.StartedAt) })
	var own, earlier []*shardDir
	for _, p := range found {
		switch {
		case p.plan.Digest != newest.plan.Digest:
			return found
		case p.total == newest.total:
			own = append(own, p)
		default:
			earlier = append(earlier, p)
		}
	}
	first := slices.MinFunc(own, func(a, b *shardDir) int { return a.plan.StartedAt.Compare(b.plan.StartedAt) })
	if slices.ContainsFunc(earlier, func(p *shardDir) bool { return !p.plan.StartedAt.Before(first.plan.StartedAt) }) {
		return found
	}
	for _, p := range earlier {
		m.note("%s is shard %s of an earlier division of the same plan, which is run again in %s: it is not merged", p.label, p.name(), plural.Count(newest.total, "shard"))
	}
	return own
}

// oneOfEach returns one directory for each shard: the newest complete one, or the newest if none is
// complete.
func (m *merge) oneOfEach(found []*shardDir) []*shardDir {
	byIndex := map[int][]*shardDir{}
	for _, p := range found {
		byIndex[p.index] = append(byIndex[p.index], p)
	}
	var chosen []*shardDir
	for _, same := range byIndex {
		slices.SortFunc(same, func(a, b *shardDir) int {
			return cmp.Or(compareBool(b.state == complete, a.state == complete),
				b.plan.StartedAt.Compare(a.plan.StartedAt), cmp.Compare(b.upto(), a.upto()), cmp.Compare(a.label, b.label))
		})
		chosen = append(chosen, same[0])
	}
	slices.SortFunc(chosen, func(a, b *shardDir) int { return cmp.Compare(a.index, b.index) })
	for _, p := range chosen {
		for _, other := range byIndex[p.index][1:] {
			m.note("shard %s is there twice: %s is merged (%s), %s is not (%s)", p.name(), p.label, p.describe(), other.label, other.describe())
		}
	}
	return chosen
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// describe returns the properties that distinguish a directory from others of the same shard.
func (p *shardDir) describe() string {
	how := map[state]string{complete: "complete", cancelled: "cancelled", unfinished: "did not finish"}[p.state]
	return how + ", started " + p.plan.StartedAt.UTC().Format("2006-01-02 15:04:05")
}

// noteCommits adds a note if shards with equal tasks and configuration ran at different commits.
func (m *merge) noteCommits() {
	commits := map[string]bool{}
	for _, p := range m.parts {
		commits[commitOf(p.plan)] = true
	}
	if len(commits) > 1 {
		m.note("the shards ran at %d commits, with the same tasks and configuration; the merged job names %s", len(commits), commitOf(m.base.plan))
	}
}

// noteVersions adds a note if shards were run with versions of Rollout that may judge by different
// rules.
func (m *merge) noteVersions() {
	for _, p := range m.parts {
		if !result.JudgeAlike(p.plan.RolloutVersion, m.base.plan.RolloutVersion) {
			m.note("shard %s was run with Rollout %s and shard %s with %s: what counts as an error, a timeout or a reward may differ between them (CHANGELOG.md)",
				m.base.name(), m.base.plan.RolloutVersion, p.name(), p.plan.RolloutVersion)
			return
		}
	}
}

// noteUnchecked adds a note for each shard without checksums, as earlier versions left them.
func (m *merge) noteUnchecked() {
	for _, p := range m.parts {
		if !p.hasSums() && p.state != unfinished { // else it is incomplete anyway
			m.note("%s", unchecked(p.label))
		}
	}
}

func commitOf(p result.Plan) string {
	if p.Commit == nil {
		return "no commit"
	}
	return *p.Commit
}

// readPlan reads the plan of all shards from one of them.
func (m *merge) readPlan() error {
	plan, err := m.base.readPlan()
	if err != nil {
		return job.Refuse("%s: its %s cannot be used: %v", m.base.label, result.PlanFile, err)
	}
	m.shardOf = plan.ShardOf
	if plan.Shard == nil {
		m.shardOf = slices.Repeat([]int{1}, plan.Trials.Len())
	}
	plan.Shard, plan.ShardOf, plan.Split, plan.Checksums = nil, nil, "", false
	if m.total > 1 {
		plan.Resumed = nil // when one shard was idle, others were not
		plan.Stopped = m.stops()
		plan.Rounds = m.rounds(plan.Trials)
	}
	m.plan = plan
	if plan.Rounds != nil {
		if err := plan.Check(); err != nil {
			return job.Refuse("a %s %v", result.PlanFile, err)
		}
	}
	return m.addConfirmations()
}

// stops returns the reasons why shards stopped.
func (m *merge) stops() []result.Stop {
	var stops []result.Stop
	for _, p := range m.parts {
		for _, s := range p.plan.Stopped[:min(1, len(p.plan.Stopped))] { // a run stops once
			s.Shard = &result.Shard{Index: p.index, Total: p.total}
			stops = append(stops, s)
		}
	}
	return stops
}

// addConfirmations adds the confirmation attempts of the shards to the plan.
func (m *merge) addConfirmations() error {
	m.keys = m.plan.Trials
	owner := map[result.Key]int{}
	m.plan.Confirm = nil
	for _, p := range m.parts {
		if c := p.plan.Confirm; c != nil {
			m.plan = m.plan.WithConfirmation(*c)
			for _, task := range c.Tasks {
				owner[task] = p.index
			}
		}
	}
	if m.plan.Confirm == nil {
		return nil
	}
	if err := m.plan.Check(); err != nil {
		return job.Refuse("a %s %v", result.PlanFile, err)
	}
	confirmations := m.plan.ConfirmationKeys()
	m.keys.Append(confirmations...)
	m.shardOf = slices.Clone(m.shardOf)
	for _, k := range confirmations {
		m.shardOf = append(m.shardOf, owner[k.Unnumbered()])
	}
	return nil
}

// readPlan reads all of a shard's plan.json.
func (p *shardDir) readPlan() (plan result.Plan, err error) {
	text, err := nofollow.ReadFile(filepath.Join(p.dir, result.PlanFile), result.MaxJobFile)
	if err != nil {
		return plan, err
	}
	if err := p.checkTop(result.PlanFile, text); err != nil {
		return plan, err
	}
	if err := bounded.Unmarshal(text, &plan); err != nil {
		return plan, err
	}
	if plan.Digest != p.plan.Digest || (plan.Shard == nil) != (p.plan.Shard == nil) || plan.Shard != nil && *plan.Shard != *p.plan.Shard {
		return plan, fmt.Errorf("its beginning contradicts its end")
	}
	if plan.JobName == "" {
		return plan, fmt.Errorf("it has no job_name")
	}
	return plan, plan.Check()
}

// refuseDifferent returns a refusal that describes how two shards' plans differ, as far as is
// known.
func refuseDifferent(a, b *shardDir) error {
	for _, p := range []*shardDir{a, b} {
		if err := p.checkPlan(); err != nil {
			return job.Refuse("%v", err)
		}
	}
	if a.plan.Digest == b.plan.Digest {
		if a.total != b.total {
			return job.Refuse("%s is shard %s and %s is shard %s of the same plan: merge only the shards of one split", a.label, a.name(), b.label, b.name())
		}
		return job.Refuse("%s and %s divide the same plan in different ways (%s, %s): all shards need the same --timings",
			a.label, b.label, a.plan.Split, b.plan.Split)
	}
	var why []string
	if x, y := commitOf(a.plan), commitOf(b.plan); x != y {
		why = append(why, fmt.Sprintf("one is of %s, the other of %s", x, y))
	}
	x, errX := a.readPlan()
	y, errY := b.readPlan()
	if errX == nil && errY == nil {
		why = append(why, differences(x, y)...)
	}
	if len(why) == 0 {
		why = append(why, "the tasks and trials are the same, so the configuration differs: compare their "+result.ConfigFile)
	}
	return job.Refuse("%s (plan %s) and %s (plan %s) are not parts of one job: %s", a.label, a.plan.Digest, b.label, b.plan.Digest, strings.Join(why, "; "))
}

// differences describes how two plans' tasks and trials differ.
func differences(a, b result.Plan) (out []string) {
	type name struct{ dataset, task string }
	digests := map[name]string{}
	for _, t := range a.Tasks {
		digests[name{t.Dataset, t.Task}] = t.Digest
	}
	var changed, added []string
	for _, t := range b.Tasks {
		n := name{t.Dataset, t.Task}
		switch digest, ok := digests[n]; {
		case !ok:
			added = append(added, t.Dataset+"/"+t.Task)
		case digest != t.Digest:
			changed = append(changed, t.Dataset+"/"+t.Task)
		}
		delete(digests, n)
	}
	var gone []string
	for n := range digests {
		gone = append(gone, n.dataset+"/"+n.task)
	}
	slices.Sort(gone)
	for _, d := range []struct {
		what  string
		tasks []string
	}{{"files differ in", changed}, {"only the second has", added}, {"only the first has", gone}} {
		if len(d.tasks) > 0 {
			out = append(out, d.what+" the task "+untrusted.Names(d.tasks))
		}
	}
	files := map[string]string{}
	for _, agent := range a.Agents {
		files[agent.Agent] = agent.Files
	}
	for _, agent := range b.Agents {
		if was, ok := files[agent.Agent]; ok && was != agent.Files {
			out = append(out, "the agent "+untrusted.Names([]string{agent.Agent})+" has other files")
		}
	}
	if x, y := a.Trials.Len(), b.Trials.Len(); x != y {
		out = append(out, fmt.Sprintf("one has %d trials, the other %d", x, y))
	}
	return out
}
