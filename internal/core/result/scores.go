package result

import (
	"cmp"
	"maps"
	"slices"
)

// ScoreSum sums up the score of a judge, or of one of its criteria, over trials. Confirmation
// attempts are not among them.
type ScoreSum struct {
	Name   string   `json:"name"`   // of the judge, or judge.criterion
	Mean   *float64 `json:"mean"`   // from 0 to 1; null if no trial has the score
	Trials int      `json:"trials"` // that have the score
	// Missing counts the trials without it: the judge did not run, or gave no verdict. Of trials
	// that no judge judged, it counts none.
	Missing int `json:"missing"`
}

// scoreTally adds up scores. The zero scoreTally is ready to use.
type scoreTally struct{ byName map[string]*ScoreSum }

// maxScores bounds the names of scores, because result files are not trusted.
const maxScores = 1000

func (t *scoreTally) add(trial Trial) {
	for name, score := range trial.Scores {
		t.count(name, score)
	}
	for _, run := range trial.Agents {
		for criterion, value := range run.Criteria {
			if run.Role == RoleJudge {
				t.count(run.Name+"."+criterion, &value)
			}
		}
	}
}

func (t *scoreTally) count(name string, score *float64) {
	s := t.byName[name]
	if s == nil {
		if len(t.byName) >= maxScores {
			return
		}
		if t.byName == nil {
			t.byName = map[string]*ScoreSum{}
		}
		s = &ScoreSum{Name: name}
		t.byName[name] = s
	}
	if score == nil {
		s.Missing++
		return
	}
	if s.Mean == nil {
		s.Mean = new(float64)
	}
	s.Trials++
	*s.Mean = finite(*s.Mean + (*score-*s.Mean)/float64(s.Trials))
}

// sums returns the sums of the added scores, sorted by name; nil if there are none.
func (t *scoreTally) sums() []ScoreSum {
	var out []ScoreSum
	for _, s := range slices.SortedFunc(maps.Values(t.byName), func(a, b *ScoreSum) int { return cmp.Compare(a.Name, b.Name) }) {
		one := *s
		if s.Mean != nil {
			one.Mean = new(*s.Mean)
		}
		out = append(out, one)
	}
	return out
}

// OutcomeScore is the score that a judge, or one of its criteria, gave a trial.
type OutcomeScore struct {
	Score *float64 `json:"score"` // from 0 to 1; null if there is none
	// Judge is the beginning of the digest of the judge; see AgentRun.Digest. "": not known.
	Judge string `json:"judge,omitempty"`
	// Skipped: the judge did not have to judge the trial.
	Skipped bool `json:"skipped,omitempty"`
	// Group: the score compares trials of one job. It is compared with none of another job.
	Group bool `json:"group,omitempty"`
}

// maxJudge is the length of the prefix of a judge's digest in an outcome.
const maxJudge = len("sha256:") + 16

// outcomeScores returns the scores of a trial for its outcome; nil if it has none.
func outcomeScores(t Trial) map[string]OutcomeScore {
	var out map[string]OutcomeScore
	add := func(name, digest string, score *float64, skipped, group bool) {
		if out == nil {
			out = map[string]OutcomeScore{}
		}
		if len(out) < maxScores {
			out[name] = OutcomeScore{score, digest[:min(len(digest), maxJudge)], skipped, group}
		}
	}
	for _, run := range t.Agents {
		score, judged := t.Scores[run.Name]
		if run.Role != RoleJudge || !judged {
			continue
		}
		add(run.Name, run.Digest, score, run.Skipped && score == nil, run.Group != nil)
		for criterion, value := range run.Criteria {
			add(run.Name+"."+criterion, run.Digest, new(value), false, false)
		}
	}
	return out
}

// ScoreDiff compares the score of a judge, or of one of its criteria, on comparable tasks. Base and
// Head are means over tasks of the mean over a task's trials that have the score; each task counts
// once. They are null if no task has the score on both sides.
type ScoreDiff struct {
	Name  string   `json:"name"`
	Base  *float64 `json:"base"`
	Head  *float64 `json:"head"`
	Tasks int      `json:"tasks"` // with the score on both sides
	// Changed are the tasks whose judge is not the same on both sides, so that their scores are not
	// compared.
	Changed int `json:"changed"`
}

// ScoresOf returns the scores with a name, of those attempts that have it. judge is the digest of
// the judge that gave them, or "changed" if several judges did.
func (a *Attempts) ScoresOf(name string) (scores []float64, judge string) {
	first := true
	for o := range a.Scored() {
		s, ok := o.Scores[name]
		if !ok || s.Score == nil {
			continue
		}
		scores = append(scores, *s.Score)
		switch {
		case first:
			judge, first = s.Judge, false
		case judge != s.Judge:
			judge = "changed"
		}
	}
	return scores, judge
}

// SameJudge returns the scores with a name on both sides. same is false if both sides have scores
// and their judges differ or are not known.
func (d TaskDiff) SameJudge(name string) (base, head []float64, same bool) {
	base, before := d.Base.ScoresOf(name)
	head, now := d.Head.ScoresOf(name)
	return base, head, len(base) == 0 || len(head) == 0 || before == now && now != "" && now != "changed"
}

// scoreDiffs compares the scores of comparable tasks, sorted by name; nil if there are none. base
// and head have the same tasks.
func scoreDiffs(base, head []*Attempts) []ScoreDiff {
	names := map[string]bool{}
	for i := range base {
		for _, side := range []*Attempts{base[i], head[i]} {
			for o := range side.Scored() {
				for name, s := range o.Scores {
					if s.Group {
						continue
					}
					if len(names) < maxScores {
						names[name] = true
					}
				}
			}
		}
	}
	var out []ScoreDiff
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d := ScoreDiff{Name: name}
		var before, after []float64
		for i := range base {
			b, h, same := TaskDiff{Base: base[i], Head: head[i]}.SameJudge(name)
			switch {
			case !same:
				d.Changed++
			case len(b) > 0 && len(h) > 0:
				before, after = append(before, Mean(b)), append(after, Mean(h))
			}
		}
		if d.Tasks = len(before); d.Tasks > 0 {
			d.Base, d.Head = new(Mean(before)), new(Mean(after))
		}
		out = append(out, d)
	}
	return out
}
