package dockerfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/platforms"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// stage is one FROM and what follows it.
type stage struct {
	index    int
	name     string // of AS, or empty
	label    string // in progress lines; empty if there is nothing to tell apart
	line     int
	image    string // what FROM names, if that is an image
	base     int    // the stage that FROM names, or -1
	commands []instructions.Command
}

// stages are a Dockerfile's, in its order.
type stages []*stage

// resolve works out what each stage stands on. global is what ARGs before the first FROM gave.
func resolve(src recipe, global environ, platform platforms.Platform) (stages, error) {
	var (
		all      stages
		problems []error
		lex      = shell.NewLex(src.escape)
	)
	for i, from := range src.stages {
		st := &stage{
			index:    i,
			name:     from.Name,
			line:     firstLine(from.Location),
			base:     -1,
			commands: from.Commands,
		}
		if err := st.from(from, lex, global, platform, all); err != nil {
			problems = append(problems, at(st.line, err))
		}
		switch {
		case len(src.stages) == 1:
		case st.name != "":
			st.label = st.name + " "
		default:
			st.label = fmt.Sprintf("stage-%d ", i)
		}
		all = append(all, st)
	}
	return all, inOrder(problems)
}

// from reads a FROM.
func (st *stage) from(from *instructions.Stage, lex *shell.Lex, global environ, platform platforms.Platform, before stages) error {
	name, _, err := lex.ProcessWord(from.BaseName, global)
	if err != nil {
		return err
	}
	if name == "" {
		return fmt.Errorf("FROM %s names no image: give its ARG a default before the first FROM", from.BaseName)
	}
	if err := checkPlatform(from.Platform, lex, global, platform); err != nil {
		return err
	}
	if i, ok := before.named(name); ok {
		st.base = i
		return nil
	}
	st.image = name
	return nil
}

// checkPlatform refuses what this machine cannot run.
func checkPlatform(asked string, lex *shell.Lex, global environ, ours platforms.Platform) error {
	if asked == "" {
		return nil
	}
	text, _, err := lex.ProcessWord(asked, global)
	if err != nil {
		return err
	}
	if text == "" {
		return fmt.Errorf("--platform=%s is empty", asked)
	}
	p, err := readPlatform(text)
	if err != nil {
		return err
	}
	if !platforms.Only(ours).Match(p) {
		return fmt.Errorf("--platform=%s: this builds for %s only: leave --platform away, or use the provider docker", text, platforms.Format(ours))
	}
	return nil
}

// named finds a stage by the name that AS gave it; of two with one name, the later.
func (all stages) named(name string) (int, bool) {
	for _, st := range slices.Backward(all) {
		if st.name != "" && strings.EqualFold(st.name, name) {
			return st.index, true
		}
	}
	return 0, false
}

// find finds a stage by name or number.
func (all stages) find(name string) (index int, ok bool, err error) {
	if i, ok := all.named(name); ok {
		return i, true, nil
	}
	i, err := strconv.Atoi(name)
	if err != nil {
		return 0, false, nil //nolint:nilerr // it is the name of an image then
	}
	if i < 0 || i >= len(all) {
		return 0, false, fmt.Errorf("there is no stage %d: the last is %d", i, len(all)-1)
	}
	return i, true, nil
}

// target is the stage to build.
func (all stages) target(name string) (int, error) {
	if name == "" {
		return len(all) - 1, nil
	}
	i, ok, err := all.find(name)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, fmt.Errorf("there is no stage %q", name)
	}
	return i, nil
}

// origin is what --from or a mount's from names.
type origin struct {
	stage int    // or -1
	image string // if it is no stage
}

// origin finds what an instruction of a stage copies from.
func (all stages) origin(st *stage, name string) (origin, error) {
	i, ok, err := all.find(name)
	if err != nil {
		return origin{}, err
	}
	if !ok {
		return origin{stage: -1, image: name}, nil
	}
	if i >= st.index {
		return origin{}, fmt.Errorf("stage %q is not complete here: only earlier stages can be copied from", name)
	}
	return origin{stage: i}, nil
}

// needed lists what must be built for a target, in order, or every problem that naming stages has.
func (all stages) needed(target int) ([]int, error) {
	var (
		wanted   = make([]bool, len(all))
		problems []error
		order    []int
	)
	wanted[target] = true
	for i := target; i >= 0; i-- {
		if !wanted[i] {
			continue
		}
		order = append(order, i)
		st := all[i]
		if st.base >= 0 {
			wanted[st.base] = true
		}
		for _, command := range st.commands {
			for _, name := range froms(command) {
				o, err := all.origin(st, name)
				if strings.Contains(name, "$") {
					err = fmt.Errorf("--from=%s: variables have no effect there: give the image a stage of its own (FROM %s AS name) and copy from that", name, name)
				}
				if err != nil {
					problems = append(problems, at(firstLine(command.Location()), err))
				} else if o.stage >= 0 {
					wanted[o.stage] = true
				}
			}
		}
	}
	slices.Reverse(order)
	return order, inOrder(problems)
}

// froms are the stages and images that an instruction takes files from.
func froms(command instructions.Command) []string {
	switch c := command.(type) {
	case *instructions.CopyCommand:
		if c.From != "" {
			return []string{c.From}
		}
	case *instructions.RunCommand:
		var names []string
		for _, mount := range instructions.GetMounts(c) {
			if mount.From != "" {
				names = append(names, mount.From)
			}
		}
		return names
	}
	return nil
}
