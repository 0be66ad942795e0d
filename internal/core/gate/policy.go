package gate

import "reflect"

// Policy is the gate of a job: the conditions under which the job passes. The tags describe the
// keys of a job file; see package config.
type Policy struct {
	Thresholds
	Mode           Mode         `yaml:"mode" json:"mode,omitempty" enum:"enforce,advise" doc:"enforce: the verdict decides whether the check is green. advise: reports and outputs say what the verdict is, and the check is green unless results are missing. Default: enforce."`
	Until          string       `yaml:"until" json:"until,omitempty" doc:"The last day on which mode: advise applies, as YYYY-MM-DD (UTC). Then the verdict decides; reports say so from a week before. Default: no end."`
	Confidence     float64      `yaml:"confidence" json:"confidence" default:"0.95" min:"0.5" max:"0.9999" doc:"How sure a drop must be before it counts: 0.95 fails a suite that did not change at most once in twenty times."`
	Noise          Noise        `yaml:"noise" json:"noise" default:"test" enum:"test,ignore" doc:"test: a drop, or a number of broken tasks, counts only if it is statistically significant. ignore: every one counts."`
	OnInconclusive Outcome      `yaml:"on_inconclusive" json:"on_inconclusive" default:"pass" enum:"pass,fail" doc:"The verdict for a drop, or for broken tasks, that this suite cannot distinguish from chance."`
	OnNoBaseline   Outcome      `yaml:"on_no_baseline" json:"on_no_baseline,omitempty" default:"pass" enum:"pass,fail" doc:"The verdict for a limit that compares with a baseline, if there is none, or if none of the tasks can be compared with it."`
	Stop           Stop         `yaml:"stop" json:"stop,omitempty" enum:"end,early" doc:"When a job ends: end (all attempts are made) or early (attempts are made in rounds, and no more of them when a drop is proven or no further attempts could reasonably prove one). early needs a baseline with as many attempts. Default: end."`
	Baseline       Baseline     `yaml:"baseline" json:"baseline,omitzero" doc:"What the job is compared with."`
	Confirm        Confirm      `yaml:"confirm" json:"confirm,omitzero" doc:"Tries tasks that look broken again before they count."`
	Groups         []Group      `yaml:"groups" json:"groups,omitempty" most:"1000" doc:"Thresholds for single agents or datasets, besides those for the whole job."`
	Quarantine     []Quarantine `yaml:"quarantine" json:"quarantine,omitempty" doc:"Tasks that are known to be flaky: they are reported, not gated."`
}

// Baseline says what a job is compared with.
type Baseline struct {
	// Pool 0 is 1.
	Pool int `yaml:"pool" json:"pool,omitempty" min:"1" max:"5" doc:"How many of the base branch's last results are the baseline together, each of a whole run of the same job. If there are fewer, those. Default: 1."`
}

// Confirm limits the attempts that try tasks again that look broken. They enter no rate; see
// Policy.Confirmable.
type Confirm struct {
	Attempts int `yaml:"attempts" json:"attempts" default:"0" min:"0" max:"20" doc:"How many more attempts, at most, a task gets that passed in every attempt of the baseline and in none now. One that passes in any of them is flaky, not broken. If the baseline runs with the job, it makes them, too, and tasks that look fixed get them as well. 0: none."`
	MaxTasks int `yaml:"max_tasks" json:"max_tasks,omitempty" min:"0" max:"100000" doc:"How many tasks are tried again at most, chosen by a hash of their names. Default: 20, or 100 if the baseline makes attempts, too. If more look broken, the others count in proportion to those that were tried again."`
}

// Thresholds are limits on a job's numbers. nil means no limit. Rates are from 0 to 1, rewards have
// no unit, costs are in US dollars. Limits on drops, broken tasks and the increase of costs compare
// with a baseline, and are not checked without one.
type Thresholds struct {
	MinPassRate       *float64               `yaml:"min_pass_rate" json:"min_pass_rate,omitempty" min:"0" max:"1" doc:"The smallest share of trials, of those with a reward, whose reward is 1. In a job with other agents, oracle and nop enter it only in a group that names them, as in all rates, drops and means."`
	MinPassRateAll    *float64               `yaml:"min_pass_rate_all" json:"min_pass_rate_all,omitempty" min:"0" max:"1" doc:"The smallest share of all planned trials whose reward is 1: a trial without a reward did not pass."`
	MinMeanReward     *float64               `yaml:"min_mean_reward" json:"min_mean_reward,omitempty" doc:"The smallest mean reward, over the trials that have one."`
	MaxFailedTrials   *int                   `yaml:"max_failed_trials" json:"max_failed_trials,omitempty" min:"-1" doc:"How many trials may have no verdict, because of an error of the infrastructure, the task, the agent's installation, the verifier or a judge; -1: any number. A trial that the agent loses, because it fails or takes too long, is not among them. Default for the whole job: 0."`
	MaxPassRateDrop   *float64               `yaml:"max_pass_rate_drop" json:"max_pass_rate_drop,omitempty" min:"0" max:"1" doc:"How far the pass rate may fall below the baseline's: 0.05 is five percentage points. A trial that the agent, the verifier or a judge ended without a reward counts as not passed."`
	MaxMeanRewardDrop *float64               `yaml:"max_mean_reward_drop" json:"max_mean_reward_drop,omitempty" min:"0" doc:"How far the mean reward may fall below the baseline's. A trial that the agent, the verifier or a judge ended without a reward counts as 0."`
	MaxBrokenTasks    *int                   `yaml:"max_broken_tasks" json:"max_broken_tasks,omitempty" min:"0" doc:"How many tasks may be broken: passed in every attempt of the baseline, and in none now, also if the agent, the verifier or a judge ended them with an error. Under noise: test, more than that count only if their number is statistically significant."`
	MaxCostUSD        *float64               `yaml:"max_cost_usd" json:"max_cost_usd,omitempty" min:"0" doc:"The most that the trials may cost together, in US dollars."`
	MaxCostIncrease   *float64               `yaml:"max_cost_increase" json:"max_cost_increase,omitempty" unit:"share" min:"0" doc:"How far the cost of a typical trial (the geometric mean over tasks) may rise above the baseline's, on the same tasks: 20% or 0.2. Under noise: test, a larger rise counts only if it is statistically significant. Trials whose cost is not known are left out and counted; if most are, the check is inconclusive."`
	MaxJudgeCostUSD   *float64               `yaml:"max_judge_cost_usd" json:"max_judge_cost_usd,omitempty" min:"0" doc:"The most that the models of judges may cost together, in US dollars. It is a part of max_cost_usd."`
	Scores            map[string]ScoreLimits `yaml:"scores" json:"scores,omitempty" doc:"Limits on the scores of judges, by the name of the judge, or of one of its criteria as JUDGE.CRITERION."`
	MaxDurationSec    *float64               `yaml:"max_duration_sec" json:"max_duration_sec,omitempty" min:"0" doc:"The longest that the job may take, from its start to the end of its last trial, in seconds. For a group: the sum of its trials' durations."`
}

// ScoreLimits are limits on the score of a judge, or of one of its criteria. Trials without the
// score are left out and counted.
type ScoreLimits struct {
	Min *float64 `yaml:"min" json:"min,omitempty" min:"0" max:"1" doc:"The smallest mean of the score, over the trials that have it. More trials without it than max_missing are a failure."`
	// MaxMissing is nil for 0.
	MaxMissing *int     `yaml:"max_missing" json:"max_missing,omitempty" min:"0" max:"1000000" doc:"How many trials may be without the score under min: the judge failed, or the trial ended before it. Trials that the judge did not have to judge (when) are not among them. Default: 0."`
	MaxDrop    *float64 `yaml:"max_drop" json:"max_drop,omitempty" min:"0" max:"1" doc:"How far the mean of the score may fall below the baseline's, on the same tasks. Under noise: test, a larger drop counts only if it is statistically significant. Scores of a judge that has changed since the baseline are not compared."`
}

// None reports whether there is no limit.
func (t Thresholds) None() bool {
	if len(t.Scores) == 0 {
		t.Scores = nil
	}
	return reflect.ValueOf(t).IsZero()
}

// Group holds thresholds for the trials of agents and datasets whose names match the globs. An
// empty glob matches all.
type Group struct {
	Agent   string `yaml:"agent" json:"agent,omitempty" doc:"Glob of the agents meant (*, ?, [a-z]). Default: all together."`
	Dataset string `yaml:"dataset" json:"dataset,omitempty" doc:"Glob of the datasets meant. Default: all together."`
	Thresholds
}

// Quarantine takes tasks out of the gate for a while. They are still run and reported.
type Quarantine struct {
	Task    string `yaml:"task" json:"task" required:"true" doc:"Glob of the tasks meant."`
	Dataset string `yaml:"dataset" json:"dataset,omitempty" doc:"Glob of the datasets meant. Default: all."`
	Reason  string `yaml:"reason" json:"reason" required:"true" doc:"The reason, such as a link to an issue."`
	Until   string `yaml:"until" json:"until" required:"true" doc:"The last day of the quarantine, as YYYY-MM-DD (UTC). Then the tasks are gated again."`
}

// Noise selects whether drops and broken tasks are tested for statistical significance.
type Noise string

// The values of gate.noise.
const (
	NoiseTest   Noise = "test"
	NoiseIgnore Noise = "ignore"
)

// Stop selects whether a job may end before all attempts were made.
type Stop string

// The values of gate.stop.
const (
	StopEnd   Stop = "end"
	StopEarly Stop = "early"
)

// Outcome is the outcome of a check, or of a job.
type Outcome string

// The outcomes. Inconclusive: there is a drop that this suite cannot distinguish from chance. It
// passes unless the policy's OnInconclusive is Fail.
const (
	Pass         Outcome = "pass"
	Fail         Outcome = "fail"
	Inconclusive Outcome = "inconclusive"
)
