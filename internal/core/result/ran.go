package result

import (
	"errors"
	"fmt"
)

// Experiment is what trials ran, besides the files of their task: what must be equal for another
// job to take them over.
type Experiment struct {
	AgentDigest  string `json:"agent_digest"`
	ConfigDigest string `json:"config_digest"`
	TaskFormat   string `json:"task_format,omitempty"`
	Provider     string `json:"provider,omitempty"`
	Image        string `json:"image"`
	ImageID      string `json:"image_id,omitempty"`
}

// experimentOf returns what a trial ran. ok is false if no other job may take its outcome alone
// over: it does not say what ran, ran on a stand-in for its image, was only verified again, or has
// scores of judges, whose verdicts are with its logs.
func experimentOf(t Trial) (e Experiment, ok bool) {
	at := t.Environment
	if t.TaskDigest == "" || t.AgentDigest == "" || t.ConfigDigest == "" || at == nil || at.Image == "" || at.Base != nil {
		return e, false
	}
	if t.Confirmation || t.Reverified != nil || len(t.Agents)+len(t.Scores) > 0 {
		return e, false
	}
	return Experiment{t.AgentDigest, t.ConfigDigest, t.TaskFormat, at.Provider, at.Image, at.ImageID}, true
}

// ran returns the number of what a trial ran, for its outcome. known has the numbers of the job's
// experiments.
func (j *Job) ran(t Trial, known map[Experiment]int) int {
	e, ok := experimentOf(t)
	if !ok {
		return 0
	}
	if known[e] == 0 {
		j.Experiments = append(j.Experiments, e)
		known[e] = len(j.Experiments)
	}
	return known[e]
}

// checkExperiments returns an error for what no run writes.
func (j *Job) checkExperiments() error {
	for _, o := range j.Results.All() {
		if o.Experiment < 0 || o.Experiment > len(j.Experiments) {
			return fmt.Errorf("a result names experiment %d of %d", o.Experiment, len(j.Experiments))
		}
	}
	if j.Unchanged != "" && !commitID.MatchString(j.Unchanged) {
		return errors.New("what it is unchanged since is no commit")
	}
	return nil
}

// Ran returns what the trial of an outcome of the job ran; false if that is not known.
func (j *Job) Ran(o Outcome) (Experiment, bool) {
	if o.Experiment < 1 || o.Experiment > len(j.Experiments) {
		return Experiment{}, false
	}
	return j.Experiments[o.Experiment-1], true
}
