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

// stage is a FROM with its instructions.
type stage struct {
	index    int
	name     string // of AS, or empty
	label    string // for progress lines; empty if there is only one stage
	line     int
	image    string // the image that FROM names, if it is not a stage
	base     int    // the stage that FROM names, or -1
	commands []instructions.Command
}

// stages holds a Dockerfile's stages in order.
type stages []*stage

// resolve returns the stages, each with its base. global has the values of the ARGs before the
// first FROM.
func resolve(src source, global environ, platform platforms.Platform) (stages, error) {
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
	return all, joinByLine(problems)
}

// from sets the base of a stage.
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

// checkPlatform returns an error for a platform that this machine cannot run.
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
		return fmt.Errorf("--platform=%s: this builds for %s only: remove --platform, or use the provider docker", text, platforms.Format(ours))
	}
	return nil
}

// named returns the stage with a name of AS; the last one if the name repeats.
func (all stages) named(name string) (int, bool) {
	for _, st := range slices.Backward(all) {
		if st.name != "" && strings.EqualFold(st.name, name) {
			return st.index, true
		}
	}
	return 0, false
}

// find returns the stage with a name or number.
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

// target returns the stage to build.
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

// origin is the stage or image that --from or a mount's from names.
type origin struct {
	stage int    // or -1
	image string // if it is not a stage
}

// origin returns the source of an instruction of st.
func (all stages) origin(st *stage, name string) (origin, error) {
	i, ok, err := all.find(name)
	if err != nil {
		return origin{}, err
	}
	if !ok {
		return origin{stage: -1, image: name}, nil
	}
	if i >= st.index {
		return origin{}, fmt.Errorf("stage %q is not complete here: COPY --from needs an earlier stage", name)
	}
	return origin{stage: i}, nil
}

// buildOrder returns the stages that a target needs, in order. Its error has all invalid stage
// names.
func (all stages) buildOrder(target int) ([]int, error) {
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
			for _, name := range sourceNames(command) {
				o, err := all.origin(st, name)
				if strings.Contains(name, "$") {
					err = fmt.Errorf("--from=%s: variables have no effect there: name the image in another stage (FROM %s AS name) and copy from that", name, name)
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
	return order, joinByLine(problems)
}

// sourceNames returns the stages and images from which an instruction takes files.
func sourceNames(command instructions.Command) []string {
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
