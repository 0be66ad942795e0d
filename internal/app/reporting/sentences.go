package reporting

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job/resume"
)

// Looks formats counts of tasks: "2 tasks look broken and 1 fixed".
func Looks(one, many string, broken, fixed int) string {
	verb := func(n int) string {
		return plural.Count(n, "task") + " " + map[bool]string{true: one, false: many}[n == 1]
	}
	switch {
	case fixed == 0:
		return verb(broken) + " broken"
	case broken == 0:
		return verb(fixed) + " fixed"
	}
	return fmt.Sprintf("%s broken and %d fixed", verb(broken), fixed)
}

// unconfirmed reports which confirmation attempts are missing. incomplete says that the job's
// results are not complete; note is information for the user. paired is the baseline that ran with
// the job, or nil.
func unconfirmed(in report.Input, confirmations []result.Trial, paired *result.PackedTree, base *result.Job) (incomplete, note string) {
	if in.Policy.Confirm.Attempts <= 0 {
		return "", ""
	}
	left := map[result.Key]bool{}
	for _, k := range in.Plan.NextConfirmations(confirmations, cutShort(confirmations)) {
		left[k.Unnumbered()] = true
	}
	if paired != nil {
		clear(left)
		ofHead, ofBase := result.NextBeside(result.Confirming{Plan: in.Plan, Made: confirmations, Again: cutShort(confirmations)},
			result.Confirming{Plan: paired.Plan, Made: paired.Confirmations, Again: cutShort(paired.Confirmations)})
		for _, k := range slices.Concat(ofHead, ofBase) {
			left[k.Unnumbered()] = true
		}
	}
	if len(left) > 0 {
		fixed := 0
		for k := range left {
			if in.Plan.LooksFixed(k) {
				fixed++
			}
		}
		incomplete = fmt.Sprintf("%s, and not all attempts were made that would confirm it (gate.confirm)", Looks("looks", "look", len(left)-fixed, fixed))
	}
	if base == nil || in.Plan.Shard != nil {
		return incomplete, ""
	}
	tried := map[result.Key]bool{}
	if in.Plan.Confirm != nil {
		for _, k := range in.Plan.Confirm.Tasks {
			tried[k] = true
		}
	}
	again := in.Policy.Confirmable(*base, in.Job, in.Now, paired != nil)
	if paired != nil {
		again = again.WithBaseline(paired.Plan)
	}
	if again = again.Without(func(k result.Key) bool { return tried[k] }); len(again.Tasks) > 0 {
		note = fmt.Sprintf("%s and had no further attempts (gate.confirm): they are made when trials run with this baseline", Looks("looks", "look", len(again.Tasks)-len(again.Fixed), len(again.Fixed)))
	}
	return incomplete, note
}

// cutShort returns the attempts that a cancel ended, which showed nothing.
func cutShort(confirmations []result.Trial) map[result.Key]bool {
	cut := map[result.Key]bool{}
	for _, t := range confirmations {
		if t.Error != nil && t.Error.Type == result.Cancelled && !t.Completed() {
			cut[t.Key] = true
		}
	}
	return cut
}

// Resumption returns the command that resumes a job, with the report flags that are not stored in
// its directory.
func Resumption(paths host.Paths, dir string, plan result.Plan, report ReportOptions) string {
	command := "rollout resume " + host.QuotedPath(dir)
	stored := resume.Job{Dir: paths.Path(dir), Plan: plan}
	if from, err := stored.PathsFrom(); err != nil || !host.IsDir(from) {
		command += " --job-file " + jobFile(paths, dir, plan)
	}
	return command + report.Flags(plan.Compared)
}

// UnrankedPlan reports whether group judges skip a job.
func UnrankedPlan(plan result.Plan) bool { return plan.Beside != nil && plan.Beside.Baseline }

// unranked returns a sentence for each judge of groups that has not ranked all of them.
func unranked(plan result.Plan, trials []result.Packed) (sentences []string) {
	if UnrankedPlan(plan) {
		return nil
	}
	type of struct{ judge, dataset, task string }
	unranked, failed := map[of]bool{}, map[of]string{}
	for _, packed := range trials {
		if !packed.Notable() {
			continue
		}
		t := packed.Unpack()
		judged := map[string]bool{}
		for _, run := range t.Agents {
			judged[run.Name] = true
			if run.Role == result.RoleJudge && run.Group != nil && run.Error != nil && !run.Group.Ignored {
				failed[of{run.Name, t.Dataset, t.Task}] = run.Error.Message
			}
		}
		for name, score := range t.Scores {
			if score == nil && !judged[name] && len(t.Agents) > 0 {
				unranked[of{name, t.Dataset, t.Task}] = true
			}
		}
	}
	count := func(groups []of, name string) (n int) {
		for _, g := range groups {
			if g.judge == name {
				n++
			}
		}
		return n
	}
	compare := func(a, b of) int {
		return strings.Compare(a.judge+"/"+a.dataset+"/"+a.task, b.judge+"/"+b.dataset+"/"+b.task)
	}
	for _, groups := range [][]of{slices.SortedFunc(maps.Keys(unranked), compare), slices.SortedFunc(maps.Keys(failed), compare)} {
		for i, g := range groups {
			if i > 0 && groups[i-1].judge == g.judge {
				continue
			}
			n := plural.Count(count(groups, g.judge), "task")
			if why, ok := failed[g]; ok {
				sentences = append(sentences, fmt.Sprintf("the judge %s gave no ranking of %s; the first, %s/%s: %s", g.judge, n, g.dataset, g.task, why))
			} else {
				sentences = append(sentences, fmt.Sprintf("the judge %s has not ranked %s yet: resume the job", g.judge, n))
			}
		}
	}
	return sentences
}

// takenFrom names the job that a trial was taken from.
func takenFrom(r result.Reused) string {
	text := r.From
	if r.Commit != "" {
		text += " at commit " + host.ShortCommit(r.Commit)
	}
	if r.URL != "" {
		text += " (logs: " + r.URL + ")"
	}
	return text
}

// reused returns a sentence for reports about reused trials; "" if there are none.
func reused(job result.Job, trials []result.Packed) string {
	if job.ReusedTrials == 0 {
		return ""
	}
	from := map[string]bool{}
	var cost result.USD
	for _, packed := range trials {
		if !packed.Notable() {
			continue
		}
		if t := packed.Unpack(); t.Reused != nil {
			from[takenFrom(*t.Reused)] = true
			cost = cost.Plus(t.Cost)
		}
	}
	directories := slices.Sorted(maps.Keys(from))
	text := fmt.Sprintf("%d of %s %s not run but taken over from %s", job.ReusedTrials, plural.Count(job.TotalTrials, "trial"), plural.Were(job.ReusedTrials), host.Clean(strings.Join(directories[:min(3, len(directories))], ", ")))
	if more := len(directories) - 3; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if cost.Amount() > 0 {
		text += fmt.Sprintf("; the %s that they cost there are not counted", report.Cost(cost))
	}
	return text
}

// maxNamed is how many trials that were not started are named. result.json lists all.
const maxNamed = 20

// stopSentences returns sentences that say why trials of a job were not started, and which.
func stopSentences(ended result.Job) []string {
	var out []string
	names := func(list []result.Key) string {
		var names []string
		for _, k := range list[:min(len(list), maxNamed)] {
			names = append(names, k.String())
		}
		text := strings.Join(names, ", ")
		if n := len(list) - len(names); n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		return text
	}
	for _, s := range ended.Stopped {
		skipped := s.Skipped
		if len(ended.Stopped) == 1 && s.Shard == nil {
			skipped = len(ended.Skipped) // including those whose result was removed by hand
		}
		var what []string
		if s.Cancelled > 0 {
			what = append(what, fmt.Sprintf("%s %s cancelled", plural.Count(s.Cancelled, "trial"), plural.Were(s.Cancelled)))
		}
		if skipped > 0 || s.Cancelled == 0 {
			what = append(what, fmt.Sprintf("%s %s not started", plural.Count(skipped, "trial"), plural.Were(skipped)))
		}
		sentence := fmt.Sprintf("%s, so %s", s.Why, strings.Join(what, " and "))
		if s.Reason == result.StopFailFast {
			sentence += " (--fail-fast)"
		}
		if s.Shard != nil {
			sentence = fmt.Sprintf("in shard %s %s", s.Shard, sentence)
		}
		if len(ended.Stopped) == 1 && len(ended.Skipped) > 0 {
			sentence += ": " + names(ended.Skipped)
		}
		out = append(out, host.Clean(sentence))
	}
	if len(out) > 1 && len(ended.Skipped) > 0 {
		out = append(out, host.Clean("not started: "+names(ended.Skipped)))
	}
	return out
}

// MoreBudget returns the flags that raise the budget of a job that its budget stopped, each after a
// space.
func MoreBudget(stopped []result.Stop) string {
	has := func(reason result.StopReason) bool {
		return slices.ContainsFunc(stopped, func(s result.Stop) bool { return s.Reason == reason })
	}
	out := ""
	if has(result.StopBudgetCost) {
		out += " --budget-cost-usd MORE"
	}
	if has(result.StopBudgetDuration) {
		out += " --budget-duration LONGER"
	}
	return out
}

// partsOf returns how many trials were verified again on what.
func partsOf(on map[string]int) string {
	var parts []string
	for _, kind := range []struct{ on, text string }{
		{result.OnOutcome, "in copies of environments as the agents had left them"}, {result.OnEnvironment, "in copies of environments as the earlier tests had left them"},
		{result.OnArtifacts, "in new environments with the artifacts"}, {"", "on what each of their steps had left"},
	} {
		if on[kind.on] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", on[kind.on], kind.text))
		}
	}
	return strings.Join(parts, ", ")
}

// reverified returns a sentence for reports about trials whose tests were run again; "" if there
// are none.
func reverified(plan result.Plan, trials []result.Packed) string {
	n, on := 0, map[string]int{}
	var cost result.USD
	for _, packed := range trials {
		if !packed.Notable() {
			continue
		}
		if t := packed.Unpack(); t.Reverified != nil {
			n++
			on[t.VerifiedOn()]++
			cost = cost.Plus(t.Reverified.AgentCosts.Total())
		}
	}
	if n == 0 {
		return ""
	}
	if plan.OnlyJudges {
		return fmt.Sprintf("only the judges of %s ran, on what %s kept; what the trials cost there is not counted", plural.Count(n, "trial"), host.Clean(plan.Reverifies))
	}
	outcomes, environments, artifacts := on[result.OnOutcome], on[result.OnEnvironment], on[result.OnArtifacts]
	what := "in copies of the environments that %s kept, as the earlier tests had left them, and without the processes that agents had left running"
	switch {
	case outcomes == n:
		what = "in copies of the environments that %s kept, as the agents had left them, but without the processes that were running"
	case artifacts == n:
		what = "in new environments with the artifacts that %s kept, and with nothing else of what agents had done"
	case outcomes+environments == n && outcomes > 0:
		what = fmt.Sprintf("in copies of the environments that %%s kept, of which %d are as the agents had left them, and %d as the earlier tests had; processes that agents had left running are gone", outcomes, environments)
	case environments < n:
		what = "on what %s kept: " + partsOf(on) + "; processes that agents had left running are gone"
	}
	text := fmt.Sprintf("the tests of %s were run again "+what, plural.Count(n, "trial"), host.Clean(plan.Reverifies))
	if cost.Amount() > 0 {
		text += fmt.Sprintf("; the %s that the agents cost there are not counted", report.Cost(cost))
	}
	return text
}
