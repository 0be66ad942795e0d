// Package calibrate compares the verdicts of judges with labels of people and with each other.
package calibrate

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/agreement"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/plural"
)

// CheckRequest is the request of CheckJudges and WriteLabels.
type CheckRequest struct {
	Dir       string   // of the job
	Labels    string   // the file of labels; "": judges are compared with each other only
	Judges    []string // names of judges and criteria; empty: all
	Threshold float64  // a score as high as this passes, where labels are pass and fail
	Tolerance float64  // by which numbers may differ that agree
	Sample    int      // of WriteLabels: maximum number of trials; 0: all
}

// CheckedJudges holds the agreement of judges with labels and with each other. Names and reasons
// are untrusted text.
type CheckedJudges struct {
	Dir    string         `json:"dir"`
	Labels string         `json:"labels"` // the file; "" without one
	Trials int            `json:"trials"` // of the job that have verdicts
	Judges []CheckedJudge `json:"judges"`
	Pairs  []JudgePair    `json:"pairs"`
}

// CheckedJudge holds the agreement of a judge or a criterion.
type CheckedJudge struct {
	Name    string           `json:"name"`
	Scores  int              `json:"scores"` // trials with a score
	Null    int              `json:"null"`   // trials without one, though the judge belongs to them
	Labels  int              `json:"labels"` // of trials with a score
	Missing int              `json:"labels_without_score"`
	Raters  []string         `json:"raters"`
	Scale   *agreement.Scale `json:"scale"` // null without labels
	// Choices are the words for values of the scale.
	Choices []agreement.Choice   `json:"choices,omitempty"`
	Measure *agreement.Agreement `json:"agreement"` // with labels
	// People is the agreement between the labels of different people; null if no trial has two.
	People        *agreement.Agreement `json:"people"`
	Length        agreement.Length     `json:"length"`
	Disagreements []Disagreement       `json:"disagreements"` // the worst first
	// Preference holds the preferences of a judge of groups; null for others. Its scores are
	// compared with labels there, pair by pair, and not in Measure.
	Preference *agreement.Preference `json:"preference"`
}

// Disagreement is a label with which the judge's score does not agree.
type Disagreement struct {
	Trial  string  `json:"trial"`
	Dir    string  `json:"dir"`
	Rater  string  `json:"rater,omitempty"`
	Label  float64 `json:"label"`
	Score  float64 `json:"score"`
	Reason string  `json:"reason"`
}

// JudgePair compares two judges, or a criterion that two judges share.
type JudgePair struct {
	A       string              `json:"a"`
	B       string              `json:"b"`
	Scale   agreement.Scale     `json:"scale"`
	Measure agreement.Agreement `json:"agreement"`
}

// CheckJudges compares the verdicts of a job's judges with human labels and with each other.
func CheckJudges(h *host.Host, req CheckRequest) (CheckedJudges, error) {
	for _, number := range []struct {
		flag  string
		value float64
	}{{"threshold", req.Threshold}, {"tolerance", req.Tolerance}} {
		if !(number.value >= 0 && number.value <= 1) {
			return CheckedJudges{}, host.Usagef("--%s %g: want a number from 0 to 1", number.flag, number.value)
		}
	}
	all, err := readVerdicts(h, req.Dir, req.Judges)
	if err != nil {
		return CheckedJudges{}, err
	}
	out := CheckedJudges{Dir: req.Dir, Labels: req.Labels, Trials: len(all.keys), Judges: []CheckedJudge{}, Pairs: all.pairs(req)}
	var labels []agreement.Label
	if req.Labels != "" {
		if labels, err = readLabels(h, req, all); err != nil {
			return CheckedJudges{}, err
		}
	}
	for _, s := range all.subjects {
		var of []agreement.Label
		for _, l := range labels {
			if l.Subject == s.Name {
				of = append(of, l)
			}
		}
		out.Judges = append(out.Judges, all.check(req, s, of))
	}
	return out, nil
}

func readLabels(h *host.Host, req CheckRequest, all *verdicts) ([]agreement.Label, error) {
	f, err := os.Open(h.Path(req.Labels))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, host.Usagef("%s: there is no such file (write one to be filled in: rollout judges check %s --template --labels %s)", host.Clean(req.Labels), host.Clean(req.Dir), host.Clean(req.Labels))
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, agreement.MaxLabels+1))
	if err != nil {
		return nil, err
	}
	if len(text) > agreement.MaxLabels {
		return nil, host.Usagef("%s has more than %d MiB", host.Clean(req.Labels), agreement.MaxLabels>>20)
	}
	labels, problems := agreement.ReadLabels(req.Labels, text, all.keys, all.every)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	if len(labels) == 0 {
		return nil, host.Usagef("%s has no labels yet: fill in the columns of judges", host.Clean(req.Labels))
	}
	return labels, nil
}

// verdicts holds the scores and rankings of a job's judges.
type verdicts struct {
	dir      string
	keys     []result.Key        // of the trials that judges belong to, sorted
	subjects []agreement.Subject // that were asked for
	every    []agreement.Subject
	of       map[string]map[result.Key]opinion // by the name of the subject
	null     map[string]int                    // trials without a score of the judge
	length   map[result.Key]float64            // of the transcripts, in bytes
	rankings map[string][]result.GroupOrder    // by the name of the judge
}

// opinion is a score and the judge's reason, which is untrusted text.
type opinion struct {
	score  float64
	reason string
}

// readVerdicts reads the verdicts in the directory of a job, which may have been judged again.
// names selects judges; empty: all.
func readVerdicts(h *host.Host, dir string, names []string) (*verdicts, error) {
	v := &verdicts{dir: dir, of: map[string]map[result.Key]opinion{}, null: map[string]int{}, length: map[result.Key]float64{}, rankings: map[string][]result.GroupOrder{}}
	if err := h.CheckJobDir(dir); err != nil {
		return v, err
	}
	tree, err := reporting.ReadTree(h.Paths, h.Output, dir)
	if err != nil {
		return v, err
	}
	words := map[string]map[string]float64{} // choices that occur in verdicts
	give := func(name string, key result.Key, o opinion) {
		if v.of[name] == nil {
			v.of[name] = map[result.Key]opinion{}
		}
		v.of[name][key] = o
	}
	for _, t := range tree.All() {
		judged := false
		for _, run := range t.Agents {
			if run.Role != result.RoleJudge {
				continue
			}
			judged = true
			if g := run.Group; g != nil {
				v.rankings[run.Name] = append(v.rankings[run.Name], g.Orders...)
			}
			if run.Score == nil {
				v.null[run.Name]++
				continue
			}
			give(run.Name, t.Key, opinion{*run.Score, run.Reason})
			said := judge.Entries(run.Verdict)
			for criterion, value := range run.Criteria {
				name := run.Name + "." + criterion
				if words[name] == nil {
					words[name] = map[string]float64{}
				}
				o := opinion{score: value}
				for _, e := range said {
					if e.Criterion == criterion {
						o.reason = e.Reason
						words[name][e.Choice] = value
					}
				}
				give(name, t.Key, o)
			}
		}
		if !judged {
			continue
		}
		v.keys = append(v.keys, t.Key)
		file := filepath.Join(h.Path(dir), filepath.FromSlash(path.Join(t.Dir(), result.JudgeInputsDir, result.JudgeTranscriptFile)))
		if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
			v.length[t.Key] = float64(info.Size())
		}
	}
	if len(v.keys) == 0 {
		return v, host.Usagef("no trial of %s has a judge (see docs/judges.md)", host.Clean(dir))
	}
	slices.SortFunc(v.keys, result.Key.Compare)
	v.every = subjectsOf(v, words, choicesOf(h.Path(dir)))
	err = v.choose(names)
	return v, err
}

// choicesOf returns the choices of the criteria in a job's configuration, by judge.criterion.
func choicesOf(dir string) map[string][]string {
	var config struct {
		Judges []judge.Spec `json:"judges"`
	}
	out := map[string][]string{}
	text, err := result.ReadConfig(dir)
	if err != nil || bounded.Unmarshal(text, &config) != nil {
		return out // the verdicts contain most of it
	}
	for _, j := range config.Judges {
		for _, c := range j.Criteria {
			if len(c.Choices) == 0 {
				c.Choices = judge.DefaultChoices()
			}
			out[j.Name+"."+c.Name] = c.Choices
		}
	}
	return out
}

// subjectsOf returns all judges and criteria. words holds the choices that occur in verdicts, known
// those of the configuration.
func subjectsOf(v *verdicts, words map[string]map[string]float64, known map[string][]string) (out []agreement.Subject) {
	names := map[string]bool{}
	for name := range v.of {
		names[name] = true
	}
	for name := range v.null {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		s := agreement.Subject{Name: name}
		if choices := known[name]; len(choices) > 1 {
			for i, word := range choices {
				s.Choices = append(s.Choices, agreement.Choice{Word: word, Value: float64(i) / float64(len(choices)-1)})
			}
		}
		for word, value := range words[name] {
			if !slices.ContainsFunc(s.Choices, func(c agreement.Choice) bool { return c.Word == word }) {
				s.Open = true // the judge is a task's, or the job file is not known
				s.Choices = append(s.Choices, agreement.Choice{Word: word, Value: value})
			}
		}
		slices.SortFunc(s.Choices, func(a, b agreement.Choice) int {
			return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.Word, b.Word))
		})
		out = append(out, s)
	}
	return out
}

// choose keeps the subjects with these names. The name of a judge also selects its criteria.
func (v *verdicts) choose(names []string) error {
	v.subjects = v.every
	var known []string
	for _, s := range v.every {
		known = append(known, s.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return host.Usagef("--judge %s: there is no such judge (%s)", host.Clean(name), host.Clean(cmp.Or(diag.DidYouMean(name, known), "there are: "+strings.Join(known, ", "))))
		}
	}
	if len(names) > 0 {
		v.subjects = slices.DeleteFunc(slices.Clone(v.every), func(s agreement.Subject) bool {
			of, _, _ := strings.Cut(s.Name, ".")
			return !slices.Contains(names, s.Name) && !slices.Contains(names, of)
		})
	}
	return nil
}

// taskOf returns the name of a task, unique among all datasets.
func taskOf(k result.Key) string { return k.Dataset + "/" + k.Task }

// scaleOf returns the scale for comparing the values of a subject with labels.
func scaleOf(req CheckRequest, s agreement.Subject, others []float64) agreement.Scale {
	values := map[float64]bool{}
	for _, c := range s.Choices {
		values[c.Value] = true
	}
	if len(values) > 0 {
		for _, v := range others {
			values[v] = true
		}
		return agreement.Scale{Kind: agreement.Choices, Values: slices.Sorted(maps.Keys(values))}
	}
	if !slices.ContainsFunc(others, func(v float64) bool { return v != 0 && v != 1 }) {
		return agreement.Scale{Kind: agreement.Pass, Values: []float64{0, 1}, Threshold: req.Threshold}
	}
	return agreement.Scale{Kind: agreement.Score, Tolerance: req.Tolerance}
}

// check compares a judge or criterion with its labels, if any.
func (v *verdicts) check(req CheckRequest, s agreement.Subject, labels []agreement.Label) CheckedJudge {
	of := v.of[s.Name]
	name, _, _ := strings.Cut(s.Name, ".")
	c := CheckedJudge{Name: s.Name, Scores: len(of), Null: v.null[name], Raters: []string{}, Choices: s.Choices, Disagreements: []Disagreement{}}
	var values []float64
	byTrial := map[result.Key][]agreement.Label{}
	for _, l := range labels {
		values = append(values, l.Value)
		byTrial[l.Trial] = append(byTrial[l.Trial], l)
		if l.Rater != "" && !slices.Contains(c.Raters, l.Rater) {
			c.Raters = append(c.Raters, l.Rater)
		}
	}
	slices.Sort(c.Raters)
	if orders, ranks := v.rankings[s.Name]; ranks {
		c.Labels = len(labels)
		c.Preference = new(agreement.PreferenceOf(v.ranked(orders, byTrial)))
		return c
	}
	c.Length = v.lengthOf(of, byTrial)
	if len(labels) == 0 {
		return c
	}
	scale := scaleOf(req, s, values)
	c.Scale = &scale
	var pairs, people []agreement.Pair
	for _, key := range v.keys {
		o, scored := of[key]
		given := byTrial[key]
		slices.SortFunc(given, func(a, b agreement.Label) int { return cmp.Compare(a.Rater, b.Rater) })
		for i, l := range given {
			for _, other := range given[i+1:] {
				people = append(people, agreement.Pair{Task: taskOf(key), A: l.Value, B: other.Value})
			}
			if !scored {
				c.Missing++
				continue
			}
			p := agreement.Pair{Task: taskOf(key), A: o.score, B: l.Value}
			pairs = append(pairs, p)
			if !scale.Agree(p) {
				c.Disagreements = append(c.Disagreements, Disagreement{
					Trial: key.String(), Dir: filepath.Join(v.dir, filepath.FromSlash(key.Dir())), Rater: l.Rater, Label: l.Value, Score: o.score, Reason: o.reason,
				})
			}
		}
	}
	c.Labels = len(pairs)
	c.Measure = new(agreement.Measure(pairs, scale))
	if len(people) > 0 {
		c.People = new(agreement.Measure(people, scale))
	}
	slices.SortStableFunc(c.Disagreements, func(a, b Disagreement) int {
		return cmp.Compare(math.Abs(b.Score-b.Label), math.Abs(a.Score-a.Label))
	})
	return c
}

// lengthOf returns how scores depend on the length of transcripts. The label of a trial is the mean
// of its labels.
func (v *verdicts) lengthOf(of map[result.Key]opinion, labels map[result.Key][]agreement.Label) agreement.Length {
	var all []agreement.Sized
	for _, key := range v.keys {
		o, scored := of[key]
		length, known := v.length[key]
		if scored && known {
			all = append(all, agreement.Sized{Task: taskOf(key), Score: o.score, Length: length, Label: meanLabel(labels[key])})
		}
	}
	return agreement.LengthOf(all)
}

// meanLabel returns the mean of a trial's labels; nil if it has none.
func meanLabel(given []agreement.Label) *float64 {
	if len(given) == 0 {
		return nil
	}
	mean := 0.0
	for _, l := range given {
		mean += l.Value / float64(len(given))
	}
	return &mean
}

// ranked returns rankings with transcript lengths and labels. The files are untrusted, so a ranking
// with fewer ranks than trials is left out.
func (v *verdicts) ranked(orders []result.GroupOrder, labels map[result.Key][]agreement.Label) (out []agreement.Ranking) {
	for _, o := range orders {
		if len(o.Shown) != len(o.Ranks) || len(o.Shown) == 0 || len(o.Shown) > judge.MaxCandidates {
			continue
		}
		r := agreement.Ranking{Task: taskOf(o.Shown[0])}
		for i, key := range o.Shown {
			r.Judged = append(r.Judged, agreement.Ranked{ID: key.String(), Rank: o.Ranks[i], Length: v.length[key], Label: meanLabel(labels[key])})
		}
		out = append(out, r)
	}
	return out
}

// pairs compares the judges with each other: their scores, and criteria of the same name.
func (v *verdicts) pairs(req CheckRequest) []JudgePair {
	out := []JudgePair{}
	for i, a := range v.subjects {
		for _, b := range v.subjects[i+1:] {
			_, criterionA, _ := strings.Cut(a.Name, ".")
			_, criterionB, _ := strings.Cut(b.Name, ".")
			_, ranksA := v.rankings[a.Name]
			_, ranksB := v.rankings[b.Name]
			if criterionA != criterionB || ranksA || ranksB {
				continue
			}
			var pairs []agreement.Pair
			for _, key := range v.keys {
				oa, hasA := v.of[a.Name][key]
				if ob, hasB := v.of[b.Name][key]; hasA && hasB {
					pairs = append(pairs, agreement.Pair{Task: taskOf(key), A: oa.score, B: ob.score})
				}
			}
			if len(pairs) == 0 {
				continue
			}
			scale := agreement.Scale{Kind: agreement.Score, Tolerance: req.Tolerance}
			if len(a.Choices) > 0 && slices.Equal(a.Choices, b.Choices) {
				scale = scaleOf(req, a, nil)
			}
			out = append(out, JudgePair{A: a.Name, B: b.Name, Scale: scale, Measure: agreement.Measure(pairs, scale)})
		}
	}
	return out
}

// Below names the labelled judges whose agreement is below the given limits; nil: no limit.
func (c CheckedJudges) Below(agree, kappa *float64) (out []string) {
	checked := false
	for _, j := range c.Judges {
		checked = checked || j.Measure != nil && j.Measure.Agreement != nil || agree != nil && j.Preference != nil && j.Preference.Labels != nil
		if p := j.Preference; p != nil && p.Labels != nil && agree != nil && p.Labels.Value < *agree {
			out = append(out, fmt.Sprintf("%s prefers the same trial as people in %.3g of the pairs, which is below %g", host.Clean(j.Name), p.Labels.Value, *agree))
		}
		if j.Measure == nil {
			continue
		}
		switch m := j.Measure; {
		case m.Agreement == nil:
			out = append(out, fmt.Sprintf("%s has no score for any of its labels", host.Clean(j.Name)))
		case agree != nil && m.Agreement.Value < *agree:
			out = append(out, fmt.Sprintf("%s agrees with %.3g of the labels, which is below %g", host.Clean(j.Name), m.Agreement.Value, *agree))
		case kappa != nil && m.Kappa == nil:
			out = append(out, fmt.Sprintf("kappa of %s cannot be computed, so it is not known to be %g", host.Clean(j.Name), *kappa))
		case kappa != nil && m.Kappa.Value < *kappa:
			out = append(out, fmt.Sprintf("%s has a kappa of %.3g, which is below %g", host.Clean(j.Name), m.Kappa.Value, *kappa))
		}
	}
	if !checked && len(out) == 0 && (agree != nil || kappa != nil) {
		out = append(out, "no judge has a label to compare with, so there is nothing to check")
	}
	return out
}

// WriteLabels writes a new label file to be filled in, and returns the number of its trials. Their
// order does not reveal the verdicts.
func WriteLabels(h *host.Host, req CheckRequest) (int, error) {
	all, err := readVerdicts(h, req.Dir, req.Judges)
	if err != nil {
		return 0, err
	}
	keys := slices.DeleteFunc(slices.Clone(all.keys), func(k result.Key) bool {
		return !slices.ContainsFunc(all.subjects, func(s agreement.Subject) bool { _, ok := all.of[s.Name][k]; return ok })
	})
	if len(keys) == 0 {
		return 0, host.Usagef("no trial of %s has a score of these judges", host.Clean(req.Dir))
	}
	slices.SortFunc(keys, func(a, b result.Key) int {
		x, y := sha256.Sum256([]byte(a.String())), sha256.Sum256([]byte(b.String()))
		return bytes.Compare(x[:], y[:])
	})
	written := keys
	if req.Sample > 0 {
		written = keys[:min(len(keys), req.Sample)]
	}
	f, err := os.OpenFile(h.Path(req.Labels), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return 0, host.Usagef("%s exists: fill it in, or write another one with --labels FILE", host.Clean(req.Labels))
	}
	if err != nil {
		return 0, err
	}
	err = agreement.WriteTemplate(f, written, all.subjects, func(k result.Key) string { return filepath.Join(req.Dir, filepath.FromSlash(k.Dir())) })
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("write %s: %w", req.Labels, err)
	}
	if left := len(keys) - len(written); left > 0 {
		host.Linef(h.Output, "%s not in the file (--sample %d)", plural.Count(left, "trial")+" "+plural.Are(left), req.Sample)
	}
	return len(written), nil
}
