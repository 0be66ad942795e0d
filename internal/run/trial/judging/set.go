package judging

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/fields"
	"github.com/org/rollout-action/internal/run/trial/artifacts"
)

// Set holds the judges of a job, and returns those of its trials. It is safe for concurrent
// use.
type Set struct {
	job      config.Job
	now      time.Time
	own      []*judge.Judge
	problems []Problem
	// plain returns the reward of tasks with neither judges nor a reward.
	plain func() (*judge.Reward, []Problem)
}

// Problem is a problem with the judges of a trial, or with its reward. Its key is one of
// task.toml if OfTask is true, else one of the job file.
type Problem struct {
	judge.Problem
	OfTask  bool
	Warning bool
}

// NewSet returns the judges of a job. Prices of models are those at the time now.
func NewSet(job config.Job, now time.Time) *Set {
	s := &Set{job: job, now: now}
	for i, spec := range job.Judges {
		j, found := judge.Compile(spec)
		found = append(found, job.CheckJudge(spec, j, now)...)
		s.problems = append(s.problems, placed(found, fields.Path{"judges"}.Index(i), false)...)
		if j != nil {
			s.own = append(s.own, j)
		}
	}
	s.plain = sync.OnceValues(func() (*judge.Reward, []Problem) { return s.reward(s.own, "") })
	return s
}

// Of returns the judges of a trial of a task: those of the job, then those of the task.
// reward is nil if the reward is that of the tests. If there are problems other than warnings, the
// trial cannot be judged.
func (s *Set) Of(t *task.Task) (judges []*judge.Judge, reward *judge.Reward, problems []Problem) {
	problems = slices.Clone(s.problems)
	judges = slices.Clone(s.own)
	for i, spec := range t.Config.Judges {
		p := fields.Path{"judges"}.Index(i)
		j, found := judge.Compile(spec)
		found = append(found, s.job.CheckJudge(spec, j, s.now)...)
		if slices.ContainsFunc(s.job.Judges, func(other judge.Spec) bool { return strings.EqualFold(other.Name, spec.Name) }) {
			found = append(found, judge.Problem{
				Key: fields.Path{"name"}, Message: fmt.Sprintf("the job has a judge called %q, too; case does not count", fields.Shorten(spec.Name)), Hint: "rename one of them",
			})
		}
		problems = append(problems, placed(found, p, true)...)
		if j != nil {
			judges = append(judges, j)
		}
	}
	problems = append(problems, s.inTask(t, judges)...)
	if len(t.Config.Judges) == 0 && t.Config.Reward == "" {
		r, found := s.plain()
		return judges, r, append(problems, found...)
	}
	reward, found := s.reward(judges, t.Config.Reward)
	return judges, reward, append(problems, found...)
}

// inTask returns problems with judges that depend on the task.
func (s *Set) inTask(t *task.Task, judges []*judge.Judge) []Problem {
	var out []Problem
	kept := slices.Clone(s.job.Artifacts)
	for _, a := range t.Config.Artifacts {
		kept = append(kept, a.Source)
	}
	for _, j := range judges {
		kept = append(kept, j.Artifacts...)
	}
	for i, dir := range kept {
		kept[i] = path.Clean(dir)
	}
	for i, j := range judges {
		ofTask, p := i >= len(s.own), fields.Path{"judges"}
		if ofTask {
			p = p.Index(slices.IndexFunc(t.Config.Judges, func(spec judge.Spec) bool { return spec.Name == j.Name }))
		} else {
			p = p.Index(slices.IndexFunc(s.job.Judges, func(spec judge.Spec) bool { return spec.Name == j.Name }))
		}
		if j.UsesMetadata() {
			found := j.CheckMetadata(t.Config.Metadata)
			for k := range found {
				found[k].Message = fmt.Sprintf("for the task %s: line %d: %s", fields.Shorten(t.Name), found[k].Line, found[k].Message)
			}
			out = append(out, placed(found, p, ofTask)...)
		}
		for _, name := range j.ReadsArtifacts() {
			if !slices.ContainsFunc(kept, func(dir string) bool { return artifacts.Within(path.Clean(name), dir) }) {
				out = append(out, Problem{OfTask: ofTask, Problem: judge.Problem{
					Key:     p.Child("prompt"),
					Message: fmt.Sprintf("it reads the artifact %q, which is not kept", fields.Shorten(name)),
					Hint:    "add it to artifacts of the job, or of each task that has this judge",
				}})
			}
		}
		if j.VerdictSource() == judge.FromFile {
			out = append(out, Problem{OfTask: ofTask, Warning: true, Problem: judge.Problem{
				Key:     p.Child("source"),
				Message: fmt.Sprintf("judge %q gives its verdict as a file: every program in its environment can write it, also a program of the agent that the judge runs", fields.Shorten(j.Name)),
				Hint:    "use source: reply, which is the default",
			}})
		}
		if j.Processes == judge.KeepProcesses && j.Place() == judge.InTrial && maybeRoot(t.Config.Agent.User) {
			out = append(out, Problem{OfTask: ofTask, Warning: true, Problem: judge.Problem{
				Key:     p.Child("processes"),
				Message: fmt.Sprintf("judge %q keeps the agent's processes, and the agent may run as root: then they can read and change all that the judge has", fields.Shorten(j.Name)),
				Hint:    "set agent.user in task.toml, or use placement: fresh",
			}})
		}
	}
	return out
}

// Attempts returns the maximum number of attempts of a judge to give a verdict.
func Attempts(job config.Job) int { return cmp.Or(job.Retry.JudgeAttempts, defaultJudgeAttempts) }

// maybeRoot reports whether a user may be root. The image's user mostly is.
func maybeRoot(user task.User) bool {
	name, _, _ := strings.Cut(string(user), ":")
	return name == "" || name == "root" || name == "0"
}

// reward returns the reward of a trial with judges. own is the expression of the task.
func (s *Set) reward(judges []*judge.Judge, own string) (*judge.Reward, []Problem) {
	text, ofTask := s.job.Reward, false
	if text == "" {
		text, ofTask = own, true
	}
	r, found := judge.CompileReward(text, judges, !s.job.Verifier.Disable)
	return r, placed(found, nil, ofTask)
}

// placed returns problems with keys below p.
func placed(found []judge.Problem, p fields.Path, ofTask bool) []Problem {
	out := make([]Problem, 0, len(found))
	for _, problem := range found {
		problem.Key = slices.Concat(p, problem.Key)
		out = append(out, Problem{Problem: problem, OfTask: ofTask})
	}
	return out
}
