package history

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
)

// Changed records why the numbers of an agent in two jobs are not comparable.
type Changed struct {
	Model  bool // other models answered
	Tasks  bool // there are other tasks, or tasks with other files
	Judges bool // judges have other definitions
	Part   bool // the later job left tasks out because of what changed, or did not select them
}

// String lists the changes, as in "model, tasks"; "" if there are none.
func (c Changed) String() string {
	var parts []string
	for _, part := range []struct {
		name    string
		changed bool
	}{{"model", c.Model}, {"tasks", c.Tasks}, {"judges", c.Judges}, {"part of the tasks", c.Part}} {
		if part.changed {
			parts = append(parts, part.name)
		}
	}
	return strings.Join(parts, ", ")
}

// ChangeOf compares an agent in two jobs. Facts that one of the jobs lacks do not count as changed,
// nor do tasks that the later one left out.
func ChangeOf(before, after Agent) Changed {
	tasks := before.Tasks
	if after.Part() {
		tasks = slices.DeleteFunc(slices.Clone(tasks), func(t Task) bool { return !slices.ContainsFunc(after.Tasks, t.named) })
	}
	return Changed{
		Model:  differ(before.Models, after.Models),
		Judges: differ(before.Judges, after.Judges),
		Tasks:  !slices.EqualFunc(tasks, after.Tasks, Task.same),
	}
}

// named reports whether two tasks have the same name.
func (t Task) named(u Task) bool { return t.Dataset == u.Dataset && t.Name == u.Name }

func differ(a, b []string) bool { return len(a) > 0 && len(b) > 0 && !slices.Equal(a, b) }

func (t Task) same(u Task) bool {
	return t.named(u) && (t.Digest == "" || u.Digest == "" || t.Digest == u.Digest)
}

// Blocks returns a block for each of the last n points that have scores of an agent at all tasks:
// its height is the pass rate.
func Blocks(points []Point, name string, n int) string {
	heights := []rune("▁▂▃▄▅▆▇█")
	var line strings.Builder
	for _, a := range last(points, name, n) {
		rate := max(0, min(1, a.PassRate)) // a file may say anything
		line.WriteRune(heights[int(math.Round(rate*float64(len(heights)-1)))])
	}
	return line.String()
}

// Level returns the pass rate of an agent over the last n points that have scores of it at all
// tasks, with its interval, and the number of points. It begins at the last change of the model,
// the tasks or the judges: points before it are not comparable. The attempts at a task in all
// points are one cluster. ok is false if there is no interval.
func Level(points []Point, name string, n int) (rate float64, interval gate.Interval, count int, ok bool) {
	type key struct{ dataset, task string }
	tasks := map[key]*result.Attempts{}
	var order []*result.Attempts
	agents := last(points, name, n)
	for i := len(agents) - 1; i > 0; i-- {
		if ChangeOf(agents[i-1], agents[i]) != (Changed{}) {
			agents = agents[i:]
			break
		}
	}
	for _, a := range agents {
		for _, t := range a.Tasks {
			completed := t.Attempts - t.Lost
			if completed <= 0 || t.Lost < 0 || t.Attempts > maxAttempts || t.Passed < 0 || t.Passed > completed {
				continue // of another program
			}
			sum := tasks[key{t.Dataset, t.Name}]
			if sum == nil {
				sum = &result.Attempts{}
				tasks[key{t.Dataset, t.Name}] = sum
				order = append(order, sum)
			}
			sum.Passed += t.Passed
			sum.Rewards = append(sum.Rewards, make([]float64, completed)...)
		}
	}
	rate, interval, ok = gate.PassRate(order, Confidence)
	return rate, interval, len(agents), ok
}

// maxAttempts bounds the attempts at a task that Level allocates for a hostile line.
const maxAttempts = 10_000

// Line returns the level as a short text, as in "main's last 20: 82 % ± 4", or "… 97 % (90 to 99)"
// if the interval is not symmetric; "" if there is none. It says "last 20 whole runs" if others had
// a part of the tasks. branch is not escaped.
func Line(points []Point, branch, name string, n int) string {
	rate, interval, count, ok := Level(points, name, n)
	if !ok {
		return ""
	}
	whole := ""
	if PartsNote(points, name) != "" {
		whole = map[bool]string{true: " whole run", false: " whole runs"}[count == 1]
	}
	text := fmt.Sprintf("%s's last %d%s: %.0f %%", branch, count, whole, 100*rate)
	below, above := 100*(rate-interval.Low), 100*(interval.High-rate)
	if math.Abs(below-above) < 1.5 { // else ± would be wrong on one side
		return text + fmt.Sprintf(" ± %.0f", max(below, above))
	}
	return text + fmt.Sprintf(" (%.0f to %.0f)", 100*interval.Low, 100*interval.High)
}

// last returns an agent in the last n points that have scores of it at all tasks, the oldest first.
func last(points []Point, name string, n int) []Agent {
	var agents []Agent
	for _, p := range marked(points, name) {
		for _, a := range p.Agents {
			if a.Name == name && a.Attempts > 0 && !a.Part() {
				agents = append(agents, a)
			}
		}
	}
	return agents[max(0, len(agents)-max(0, n)):]
}
