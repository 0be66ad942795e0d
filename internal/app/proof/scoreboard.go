package proof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/dataset"
	"github.com/org/rollout-action/internal/run/registry"
	"github.com/org/rollout-action/internal/run/trial"
)

// Scoreboard says how many tasks of each dataset of a registry can run.
type Scoreboard struct {
	Registry  string         // its location, without credentials
	Providers []string       // in the order of the providers' table
	Datasets  []DatasetScore // in the order of inspect.ListDatasets
}

// Unchecked returns the number of datasets that could not be checked.
func (s Scoreboard) Unchecked() (n int) {
	for _, d := range s.Datasets {
		if d.Error != "" {
			n++
		}
	}
	return n
}

// DatasetScore says how many tasks of a dataset can run. All text is one line.
type DatasetScore struct {
	registry.Listed
	Accepted map[string]int `json:"accepted"` // the number of tasks by provider; null: it was not checked
	Refused  []Refused      `json:"refused"`  // the most frequent first; null as Accepted
	Error    string         `json:"error"`    // why it was not checked; "": it was
}

// Refused are the tasks of a dataset that providers refuse for one reason.
type Refused struct {
	Reason    string   `json:"reason"`    // that of the example
	Tasks     int      `json:"tasks"`     // how many
	Example   string   `json:"example"`   // the first of them, by name
	Providers []string `json:"providers"` // which refuse them
}

// CheckRegistry checks all tasks of a registry's datasets as Validate does, and what they need
// against what each provider can do: of the datasets that labels name, or of all if there are no
// labels. It connects to no provider. A dataset that cannot be checked has an Error, and the others
// are checked all the same. After ctx has ended, so have all that were not checked.
func CheckRegistry(ctx context.Context, h *host.Host, where string, labels []string) (Scoreboard, error) {
	source, reg, err := inspect.OpenRegistry(ctx, h, where)
	if err != nil {
		return Scoreboard{}, err
	}
	defer source.Close()
	selected, err := inspect.SelectDatasets(reg, labels)
	if err != nil {
		return Scoreboard{}, err
	}
	board := Scoreboard{Registry: reg.Source}
	check := scoring{paths: h.Paths}
	for _, entry := range h.Providers {
		if entry.Unconnected != nil {
			board.Providers, check.providers = append(board.Providers, entry.Name), append(check.providers, entry.Unconnected)
		}
	}
	work := event.Begin(ctx, "Checking datasets", len(selected))
	defer work.End()
	byLabel := map[[2]string][]*registry.Dataset{}
	for i := range reg.Datasets {
		d := &reg.Datasets[i]
		byLabel[[2]string{d.Name, d.Version}] = append(byLabel[[2]string{d.Name, d.Version}], d)
	}
	for _, listed := range selected {
		label := [2]string{listed.Name, listed.Version}
		d := byLabel[label][0]
		byLabel[label] = byLabel[label][1:]
		score := check.dataset(ctx, source, reg, d)
		score.Listed = listed
		board.Datasets = append(board.Datasets, score)
		work.Step()
	}
	return board, nil
}

// scoring checks the tasks of datasets.
type scoring struct {
	paths     host.Paths
	providers []environment.Provider
}

func (c scoring) dataset(ctx context.Context, source *dataset.Source, reg *registry.Registry, d *registry.Dataset) DatasetScore {
	t := tally{accepted: map[string]int{}, refused: map[string]*Refused{}}
	for _, p := range c.providers {
		t.accepted[p.Name()] = 0
	}
	err := ctx.Err()
	if err == nil {
		err = source.Visit(ctx, reg, d, task.Options{Unrun: true, NoJob: true}, func(v dataset.Visited) { c.task(&t, v) })
	}
	_ = source.Close() // locks of the dataset's files, which end with the process at the latest
	switch {
	case ctx.Err() != nil:
		return DatasetScore{Error: "cancelled before all of its tasks were checked"}
	case err != nil:
		return DatasetScore{Error: c.firstLine(err)}
	}
	return DatasetScore{Accepted: t.accepted, Refused: t.reasons()}
}

// task counts a task. It may be called at the same time by several goroutines.
func (c scoring) task(t *tally, v dataset.Visited) {
	var everywhere []string
	for _, p := range c.providers {
		everywhere = append(everywhere, p.Name())
	}
	if v.Problem != nil {
		message := v.Problem.Message
		if _, reason, ok := strings.Cut(strings.TrimPrefix(message, fmt.Sprintf("task %q of ", v.Name)), ": "); ok {
			message = reason // without the names of the task and the dataset
		}
		t.add(v.Name, kindOf("", message), message, everywhere)
		return
	}
	job := config.Job{}
	if wrong := problemsOf(c.paths, v.Task, job, false).Errors(); len(wrong) > 0 {
		file, reason := c.below(v.Task, wrong[0].File), wrong[0].Message
		kind := kindOf(file, reason)
		if file != "" {
			reason = file + ": " + reason
		}
		t.add(v.Name, kind, reason, everywhere)
		return
	}
	refused := map[string]*Refused{} // by kind of reason: several providers may have the same
	var kinds []string
	for _, p := range c.providers {
		err := stages.NeverOn(p, trial.Spec{Task: v.Task}, job)
		if err == nil {
			t.accept(p.Name())
			continue
		}
		reason := reasonOf(err)
		kind := kindOf("", withoutNames(reason, p.Name(), v.Task))
		if refused[kind] == nil {
			refused[kind], kinds = &Refused{Reason: reason}, append(kinds, kind)
		}
		refused[kind].Providers = append(refused[kind].Providers, p.Name())
	}
	for _, kind := range kinds {
		t.add(v.Name, kind, refused[kind].Reason, refused[kind].Providers)
	}
}

// below returns the file of a problem, seen from the task's directory.
func (c scoring) below(t *task.Task, file string) string {
	if t.Origin == nil {
		file = c.paths.Path(file)
	}
	return t.Below(file)
}

// reasonOf returns the error of a provider for users.
func reasonOf(err error) string {
	if known := new(environment.Error); errors.As(err, &known) {
		err = known.Err
	}
	return strings.TrimSuffix(err.Error(), ": "+errors.ErrUnsupported.Error())
}

// firstLine returns the first problem of an error, with the number of the others.
func (c scoring) firstLine(err error) string {
	var list diag.List
	if errors.As(err, &list) && len(list) > 0 {
		first := list[0]
		first.File = c.paths.Shown(first.File)
		text := first.String()
		if n := len(list) - 1; n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		return shortened(text)
	}
	return shortened(err.Error())
}

// maxReason is the maximum length of a reason, in bytes.
const maxReason = 400

func shortened(text string) string { return untrusted.Cut(host.Clean(text), maxReason) }

// tally counts the tasks of a dataset. Its methods may be called by many goroutines.
type tally struct {
	mu       sync.Mutex
	accepted map[string]int
	refused  map[string]*Refused // by kind of reason and providers
}

func (t *tally) accept(provider string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.accepted[provider]++
}

// maxKinds limits the distinct reasons that are stored for a dataset, because a hostile dataset can
// have another one for each task.
const maxKinds = 200

// add counts a task that providers refuse.
func (t *tally) add(name, kind, reason string, by []string) {
	kind += "\x00" + strings.Join(by, "\x00")
	name, reason = shortened(name), shortened(reason)
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.refused[kind]
	if r == nil && len(t.refused) >= maxKinds {
		kind, reason = strings.Join(by, "\x00"), "other reasons"
		r = t.refused[kind]
	}
	if r == nil {
		r = &Refused{Reason: reason, Example: name, Providers: slices.Clone(by)}
		t.refused[kind] = r
	}
	if name < r.Example {
		r.Example, r.Reason = name, reason
	}
	r.Tasks++
}

// variable matches the parts in which messages of one kind differ: quoted text and numbers.
var variable = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[0-9]+`)

// rule matches the rule of a finding, at the end of its message.
var rule = regexp.MustCompile(` \[[a-z-]+\]$`)

// kindOf returns the part of a reason that those of one kind have in common. file is a file of a
// task.
func kindOf(file, reason string) string {
	if of := rule.FindString(reason); of != "" {
		return of
	}
	top, _, _ := strings.Cut(file, "/")
	return top + "\x00" + variable.ReplaceAllLiteralString(reason, "…")
}

// word matches the names of services and providers.
var word = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9._-]*`)

// list matches several names that withoutNames has replaced.
var list = regexp.MustCompile(`…(?:,? (?:and )?…)+`)

// withoutNames returns a reason without the names of the provider and of the task's services.
func withoutNames(reason, provider string, t *task.Task) string {
	names := []string{provider, environment.MainService}
	if f := t.Services(); f != nil {
		names = append(names, f.Services.Names()...)
	}
	reason = word.ReplaceAllStringFunc(reason, func(w string) string {
		if slices.Contains(names, w) {
			return "…"
		}
		return w
	})
	return list.ReplaceAllLiteralString(reason, "…")
}

// reasons returns the reasons, the most frequent first.
func (t *tally) reasons() []Refused {
	out := make([]Refused, 0, len(t.refused))
	for _, r := range t.refused {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Refused) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Reason, b.Reason), slices.Compare(a.Providers, b.Providers))
	})
	return out
}
