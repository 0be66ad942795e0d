package config

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
)

// JudgeFile is a file that a judge of the job file names: its prompt, or the schema of its verdict.
type JudgeFile struct {
	Judge, Key string // prompt_file or verdict_file
	Given      string // as in the job file
	Path       string // absolute
}

// AllAgents returns the agents that the job evaluates, followed by those that only judge.
func (j Job) AllAgents() []agent.Agent { return slices.Concat(j.Agents, j.JudgeAgents) }

// JudgeAgent returns the agent that runs a judge in trials of the agent policy: one of the job, or
// a preset. It has the judge's model and budget. A call is Rollout's own loop without its tools. ok
// is false if there is no such agent.
func (j Job) JudgeAgent(s judge.Spec, policy agent.Agent) (_ agent.Agent, ok bool) {
	if s.Agent == judge.Call {
		shell, _ := presets.Get(presets.Shell)
		return agent.Agent{Name: judge.Call, Preset: shell.Name, Version: shell.Version, Model: j.JudgeModel(s, policy), Budget: s.Budget}, true
	}
	all := j.AllAgents()
	i := slices.IndexFunc(all, func(a agent.Agent) bool { return a.Name == s.Agent })
	var a agent.Agent
	if i >= 0 {
		a = all[i]
	} else {
		p, known := presets.Get(s.Agent)
		if !known {
			return a, false
		}
		a = agent.Agent{Name: p.Name, Preset: p.Name, Version: p.Version, Install: p.Install(p.Version), Execute: p.Execute(nil)}
	}
	a.Model, a.Budget = j.JudgeModel(s, policy), s.Budget
	return a, !a.Reserved()
}

// JudgeModel returns the name of the model of a judge in trials of the agent policy.
func (j Job) JudgeModel(s judge.Spec, policy agent.Agent) string {
	if s.Model == judge.PolicyModel {
		return policy.Model
	}
	return s.Model
}

// CheckJudge returns the problems of a judge in this job: with its agent, its model, and whether
// anything could run it. The judge may be one of a task. compiled is nil if it cannot be used.
func (j Job) CheckJudge(s judge.Spec, compiled *judge.Judge, now time.Time) []judge.Problem {
	c := judgeCheck{job: j, spec: s, now: now}
	if strings.EqualFold(s.Name, "inputs") {
		c.add("name", "choose another name", "the name %q is taken: the trial's directory judges/inputs has what judges see", s.Name)
	}
	preset, ok := c.agent()
	if ok {
		c.model(preset)
	}
	for i, p := range s.Artifacts {
		at := fields.Path{"artifacts"}.Index(i)
		if !validArtifact(p) {
			c.found = append(c.found, judge.Problem{Key: at, Message: fmt.Sprintf("%q is not the absolute path of a file or directory", fields.Shorten(p)), Hint: "write it like /app/output"})
			continue
		}
		if taken := special(p); taken != "" {
			c.found = append(c.found, judge.Problem{Key: at, Message: fmt.Sprintf("%q cannot be carried over: %s has another use", fields.Shorten(p), taken), Hint: "choose a path of the agent's work"})
		}
		for _, other := range s.Artifacts[:i] {
			if oneInOther(p, other) {
				c.found = append(c.found, judge.Problem{Key: at, Message: fmt.Sprintf("%q and %q are one in the other", other, p), Hint: "name the outer directory only"})
				break
			}
		}
	}
	if j.Verifier.Disable && compiled != nil && compiled.NeedsTests() {
		c.add("when", "leave tests out of it, or set verifier.disable: false", "when uses tests, but the tests are not run (verifier.disable)")
	}
	return c.found
}

// judgeCheck collects the problems of a judge in a job.
type judgeCheck struct {
	job   Job
	spec  judge.Spec
	now   time.Time
	found []judge.Problem
}

func (c *judgeCheck) add(key, hint, format string, args ...any) {
	c.found = append(c.found, judge.Problem{Key: fields.Path{key}, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// agent checks the agent of the judge. It returns the preset, which is empty for calls and for
// agents with their own scripts.
func (c *judgeCheck) agent() (presets.Preset, bool) {
	name := c.spec.Agent
	if name == judge.Call || name == "" {
		return presets.Preset{}, true
	}
	if reserved := (agent.Agent{Name: name}); reserved.Reserved() {
		c.add("agent", "choose an agent, a preset, or call", "agent %q is built in and judges nothing", name)
		return presets.Preset{}, false
	}
	a, ok := c.job.JudgeAgent(c.spec, agent.Agent{})
	if !ok {
		names := append(presets.Names(), judge.Call)
		for _, a := range c.job.AllAgents() {
			if !a.Reserved() {
				names = append(names, a.Name)
			}
		}
		hint := cmp.Or(diag.DidYouMean(name, names), "name an agent of the job, one in judge_agents, a preset (rollout agents ls), or call")
		c.add("agent", hint, "judge %q has the agent %q, which is neither an agent of the job nor a preset", fields.Shorten(c.spec.Name), fields.Shorten(name))
		return presets.Preset{}, false
	}
	preset, _ := presets.Get(a.Preset)
	if preset.Name != "" && len(preset.APIs) == 0 && preset.Name != presets.Shell {
		c.add("agent", "choose another agent", "the preset %s cannot judge, because it cannot use a model of the job: %s", preset.Name, preset.NoGateway)
		return preset, false
	}
	return preset, true
}

// model checks the model of the judge.
func (c *judgeCheck) model(preset presets.Preset) {
	s, job := c.spec, c.job
	if s.Model == judge.PolicyModel && s.Ranks() {
		c.add("model", "give the judge its own model", "judge %q ranks trials that may be of several agents, so it cannot have the model of one (policy)", fields.Shorten(s.Name))
		return
	}
	if s.Model == judge.PolicyModel {
		var without []string
		for _, a := range job.Agents {
			if m, ok := job.Models[a.Model]; ok {
				c.fits(preset, a.Model, m)
			} else if a.Model == "" {
				without = append(without, fmt.Sprintf("%q", fields.Shorten(a.Name)))
			}
		}
		if len(without) > 0 {
			c.add("model", "give the judge its own model", "judge %q has the model of the trial's agent (policy), but these agents have none: %s", fields.Shorten(s.Name), strings.Join(without, ", "))
		}
		return
	}
	if s.Model == "" {
		return // which is reported as a missing key
	}
	m, ok := job.Models[s.Model]
	if !ok {
		hint := cmp.Or(diag.DidYouMean(s.Model, append(slices.Sorted(maps.Keys(job.Models)), judge.PolicyModel)), "add it to models of the job")
		c.add("model", hint, "judge %q has the model %q, which is not in models", fields.Shorten(s.Name), fields.Shorten(s.Model))
		return
	}
	c.fits(preset, s.Model, m)
}

// fits checks that the judge can use a model, and that its budget can be kept.
func (c *judgeCheck) fits(preset presets.Preset, name string, m Model) {
	s := c.spec
	if m.API != APIScripted && preset.Name != "" && !preset.Speaks(m.API) {
		c.add("model", "choose a model with one of these APIs, or another agent", "judge %q speaks %s (preset %s), but the model %q speaks %s; Rollout does not translate",
			fields.Shorten(s.Name), strings.Join(preset.APIs, ", "), preset.Name, fields.Shorten(name), m.API)
	}
	if s.Budget.MaxCostUSD != nil && !m.priced(c.now) {
		at := judge.Problem{
			Key: fields.Path{"budget", "max_cost_usd"}, Hint: fmt.Sprintf("add models.%s.price, or use max_total_tokens", name),
			Message: fmt.Sprintf("the price of the model %q is not known, so a budget in dollars cannot be kept", fields.Shorten(name)),
		}
		if !slices.ContainsFunc(c.found, func(p judge.Problem) bool { return p.Message == at.Message }) {
			c.found = append(c.found, at)
		}
	}
}

// judgesCheck checks the key judges and its files.
type judgesCheck struct {
	*checker
	// texts are the files that values of judges come from, by the paths of these values.
	texts map[string]string
}

// check checks the judges of the job, and reads their files.
func (c *judgesCheck) check() {
	job := &c.out.Job
	names := map[string]int{}
	var compiled []*judge.Judge
	for i := range job.Judges {
		p := fields.Path{"judges"}.Index(i)
		if c.Bad(p) {
			continue
		}
		s := &job.Judges[i]
		folded := strings.ToLower(s.Name)
		if first, twice := names[folded]; twice && s.Name != "" {
			c.Problem(p.Child("name"), "rename one of them", "two judges are called %q: judges[%d] and judges[%d]; case does not count", fields.Shorten(s.Name), first, i)
		} else {
			names[folded] = i
		}
		read := c.files(s, p)
		if !read || c.BadBelow(p) {
			continue
		}
		j, problems := judge.Compile(*s)
		if j != nil {
			compiled = append(compiled, j)
		}
		for _, problem := range append(problems, job.CheckJudge(*s, j, c.opts.Now())...) {
			c.report(p, problem)
		}
	}
	if job.Reward == "" || c.BadBelow(fields.Path{"judges"}) || c.opts.OnlyJobFile {
		return
	}
	_, problems := judge.CompileReward(job.Reward, compiled, !job.Verifier.Disable)
	for _, problem := range problems {
		if problem.Score == "" { // a task may have a judge of that name; see package trial
			c.report(nil, problem)
		}
	}
}

// report reports a problem with the judge at p.
func (c *judgesCheck) report(p fields.Path, problem judge.Problem) {
	at := slices.Concat(p, problem.Key)
	if c.Bad(at) {
		return
	}
	c.Spoil(at)
	place, message := c.place(at, problem)
	if len(at) > 0 {
		message = at.String() + ": " + message
	}
	c.Add(place, problem.Hint, "%s", message)
}

// place returns the place of a problem with the value at p, and its message. The text may be
// in another file, or in a block of YAML.
func (c *judgesCheck) place(p fields.Path, problem judge.Problem) (Place, string) {
	place := c.Root.Locate(p, false)
	if file, ok := c.texts[p.String()]; ok {
		return Place{File: file, Line: problem.Line}, problem.Message
	}
	if problem.Line == 0 || place.IsFlag() {
		return place, problem.Message
	}
	lines := strings.Split(string(c.source.data), "\n")
	if i := place.Line - 1; i < len(lines) && place.Column <= len(lines[i]) && strings.HasPrefix(lines[i][place.Column-1:], "|") {
		return Place{File: place.File, Line: place.Line + problem.Line}, problem.Message
	}
	return place, fmt.Sprintf("line %d: %s", problem.Line, problem.Message)
}

// files reads the files that a judge names into its prompt and its verdict. It returns false
// if Options.OnlyJobFile keeps it from reading one.
func (c *judgesCheck) files(s *judge.Spec, p fields.Path) bool {
	known := true
	for _, one := range []struct {
		key, in string
		file    *string
		set     bool
		take    func(text []byte, at fields.Path)
	}{
		{"prompt_file", "prompt", &s.PromptFile, s.Prompt != "", func(text []byte, _ fields.Path) { s.Prompt = string(text) }},
		{"verdict_file", "verdict", &s.VerdictFile, len(s.Verdict) > 0, func(text []byte, at fields.Path) { s.Verdict = c.verdictFile(s.VerdictFile, text, at) }},
	} {
		given, at := *one.file, p.Child(one.key)
		if given == "" {
			continue
		}
		if one.set {
			c.Problem(at, "remove one of them", "%s and %s say the same", at, one.in)
			continue
		}
		full := c.admit(resolve(c.source.dir, given))
		c.out.JudgeFiles = append(c.out.JudgeFiles, JudgeFile{Judge: s.Name, Key: one.key, Given: given, Path: full})
		if c.opts.OnlyJobFile {
			known = false
			continue
		}
		text, err := readJudgeFile(full)
		if err != nil {
			c.Problem(at, "write the path of a file relative to the job file", "%s: %s cannot be read: %v", at, fields.Shorten(given), withoutPath(err))
			continue
		}
		one.take(text, at)
		*one.file = ""
		if c.texts == nil {
			c.texts = map[string]string{}
		}
		c.texts[p.Child(one.in).String()] = given
	}
	return known
}

// readJudgeFile returns the text of a file.
func readJudgeFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is not a file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxSize:
		return nil, fmt.Errorf("it is larger than 1 MiB")
	case !utf8.Valid(text) || strings.ContainsRune(string(text), 0):
		return nil, fmt.Errorf("it is not text in UTF-8")
	case strings.TrimSpace(string(text)) == "":
		return nil, fmt.Errorf("it is empty")
	}
	return []byte(strings.TrimPrefix(string(text), "\ufeff")), nil
}

// verdictFile returns the JSON Schema in a file of JSON or YAML.
func (c *judgesCheck) verdictFile(file string, text []byte, at fields.Path) map[string]any {
	src := source{file: file, data: text, json: strings.EqualFold(filepath.Ext(file), ".json")}
	root := src.parse(c.Problems)
	if root == nil {
		c.Spoil(at)
		return nil
	}
	var schema struct {
		All map[string]any `yaml:"all" json:"all"`
	}
	d := newDecoder(&fields.Node{Kind: fields.Mapping, Fields: []*fields.Field{{Name: "all", Value: root}}}, c.Problems)
	if root.Kind != fields.Mapping {
		c.Problem(at, "write an object", "%s: %s is no JSON Schema", at, fields.Shorten(file))
		return nil
	}
	before := len(c.Problems.List)
	d.Decode(&schema)
	if len(c.Problems.List) > before || len(schema.All) == 0 {
		c.Spoil(at)
	}
	return schema.All
}
