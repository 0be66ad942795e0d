package scaffold

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// top returns the top of the repository that has a directory, which need not exist yet, and the
// directory's path from there; "" if there is no repository.
func top(h *host.Host, dir string) (root, below string) {
	abs, err := filepath.Abs(h.Path(dir))
	if err != nil {
		return "", ""
	}
	return topOf(host.Resolved(abs))
}

// topOf returns what top does, for an absolute path without links.
func topOf(abs string) (root, below string) {
	for at := abs; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			below, err = filepath.Rel(at, abs)
			if err != nil {
				return "", ""
			}
			return at, below
		}
		if filepath.Dir(at) == at {
			return "", ""
		}
	}
}

// outsideOfGit refuses a directory of git's own, such as a bare repository: no checkout has its
// files.
func outsideOfGit(h *host.Host, dir string) error {
	abs, err := filepath.Abs(h.Path(dir))
	if err != nil {
		return fmt.Errorf("find %s: %w", dir, err)
	}
	for at := host.Resolved(abs); ; at = filepath.Dir(at) {
		if host.IsFile(filepath.Join(at, "HEAD")) && host.IsDir(filepath.Join(at, "objects")) && host.IsDir(filepath.Join(at, "refs")) {
			return host.Usagef("%s is in a directory of git, which has no files of a checkout: nothing was written (clone the repository, and choose a directory there)", host.Clean(dir))
		}
		if filepath.Dir(at) == at {
			return nil
		}
	}
}

// insideRepository refuses tasks, or the file of a registry, that are not in the repository of the
// job: a checkout in CI would not have them. way is the way out.
func insideRepository(h *host.Host, dir, tasks, way string) error {
	root, _ := top(h, dir)
	if root == "" {
		return nil
	}
	abs, err := filepath.Abs(h.Path(tasks))
	if err != nil {
		return fmt.Errorf("find %s: %w", tasks, err)
	}
	if rel, err := filepath.Rel(root, host.Resolved(abs)); err == nil && filepath.IsLocal(rel) {
		return nil
	}
	return host.Usagef("%s is outside of the repository %s, so a checkout in CI would not have it: %s",
		host.Clean(tasks), host.Clean(root), way)
}

// Choice is the provider that Init writes into the job file if none was named.
type Choice struct {
	Name string
	// Refused are the providers before it that do not work here, with the reasons.
	Refused []string
	None    bool // no provider works here; Name is the default one
}

// ChooseProvider returns the first provider that works on this machine. Remote ones are not asked.
func ChooseProvider(ctx context.Context, h *host.Host) (Choice, error) {
	var c Choice
	for _, entry := range h.Providers {
		if entry.Remote {
			continue
		}
		_, err := host.Try(ctx, h, entry)
		if ctx.Err() != nil {
			return c, host.ErrCancelled
		}
		if err == nil {
			c.Name = entry.Name
			return c, nil
		}
		if known := new(environment.Error); errors.As(err, &known) {
			err = known.Err
		}
		c.Refused = append(c.Refused, untrusted.Cut(host.Clean(entry.Name+": "+err.Error()), 200))
	}
	c.Name, c.None = h.Providers.Names()[0], true
	return c, nil
}

// CheckInitPreset refuses a preset that does not exist, or that needs a model of the job.
func CheckInitPreset(name string) error {
	if name == "" {
		return nil
	}
	p, ok := presets.Get(name)
	switch {
	case !ok:
		hint := diag.DidYouMean(name, presets.Names())
		if hint == "" {
			hint = "rollout agents ls has their names"
		}
		return host.Usagef("there is no preset %s (%s)", host.Clean(name), hint)
	case len(p.Keys) == 0:
		return host.Usagef("the preset %s needs a model of the job: write it into job.yaml yourself, as docs/agents.md shows", host.Clean(name))
	}
	return nil
}

// presetAgent returns the entry of a preset in a job file's agents.
func presetAgent(name string) string { return presetEntry(name, name) + presetKey(name) }

// presetKey returns the variables of a preset's entry: its key.
func presetKey(preset string) string {
	p, _ := presets.Get(preset)
	key := p.Keys[0]
	comment := " # from the environment rollout is started in; never printed"
	if len(p.Keys) > 1 {
		comment = " # or " + strings.Join(p.Keys[1:], ", ") + "; from the environment rollout is started in, and never printed"
	}
	return "    env:\n      " + key + ": ${" + key + "}" + comment + "\n"
}

// withoutBroken returns the lines of a job file that leave out tasks that cannot run, with their
// reasons; "" if there are none.
func withoutBroken(broken map[string]string) string {
	if len(broken) == 0 {
		return ""
	}
	text := "exclude_tasks: # they cannot run as they are\n"
	var names []string
	for name := range broken {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		text += "  - " + strconv.Quote(name) + " # " + untrusted.Cut(host.Clean(broken[name]), 200) + "\n"
	}
	return text
}

// mayIgnoreJobs reports whether the .gitignore at the top of a repository can get a line for the
// directory of results: not if that is a directory with something else.
func mayIgnoreJobs(top string) bool {
	jobs := filepath.Join(top, host.JobsDir)
	if _, err := os.Lstat(jobs); err == nil {
		if plans, _ := filepath.Glob(filepath.Join(jobs, "*", result.PlanFile)); len(plans) == 0 {
			return false
		}
	}
	info, err := os.Lstat(filepath.Join(top, ".gitignore"))
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() <= maxIgnoreFile
}

// ignoring returns the text of a .gitignore with the lines that it lacks.
func ignoring(text string, lines ...string) string {
	have := map[string]bool{}
	for line := range strings.Lines(text) {
		have[strings.TrimSpace(line)] = true
	}
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if !have[line] && !have[strings.Trim(line, "/")] && !have[strings.TrimPrefix(line, "/")] && !have[strings.TrimSuffix(line, "/")] {
			if text != "" && !strings.HasSuffix(text, "\n") {
				text += "\n"
			}
			text += line + "\n"
		}
	}
	return text
}
