package judging

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/run/trial/artifacts"
)

// groupEvidence is the evidence for a judge of a group, in one order of the candidates.
type groupEvidence struct {
	candidates []*Evidence
	ranks      []int // of the verdict, after read
}

// unnamed lists the inputs that do not reveal the agent of a trial.
var unnamed = []string{transcriptInput, changesInput, testsInput, stdoutInput, stderrInput}

// input returns the input of prompts. All candidates together get twice the room of a single trial.
func (g *groupEvidence) input() judge.GroupInput {
	in := judge.GroupInput{Task: g.candidates[0].shared.Task}
	for _, e := range g.candidates {
		in.Candidates = append(in.Candidates, e.shortened(len(g.candidates)))
	}
	return in
}

// shortened returns the input of prompts for one of n trials.
func (e *Evidence) shortened(n int) judge.Input {
	in := e.input()
	for _, text := range []struct {
		text *string
		most int
	}{
		{&in.Trial.Transcript, 2 * maxInPrompt / n}, {&in.Trial.Reply, 2 * maxOutput / n}, {&in.Trial.Changes, 2 * maxOutput / n}, {&in.Tests.Output, 2 * maxOutput / n},
	} {
		*text.text = excerpt.Middle(*text.text, text.most)
	}
	in.Artifacts = func(name string) (string, error) {
		if _, _, err := e.find(name); err != nil {
			return fmt.Sprintf("(This candidate has left nothing at %s.)", name), nil //nolint:nilerr // that says something of the candidate
		}
		text, err := e.artifactText(name)
		return excerpt.Middle(text, 2*maxOutput/n), err
	}
	return in
}

// Ask implements Material.
func (g *groupEvidence) Ask(j Judge, dir string) (string, error) {
	if dir == "" {
		return j.AskGroup(g.input(), nil)
	}
	at := &judge.Paths{Dir: dir, Files: []judge.File{{Path: path.Join(dir, inputsDir, instructInput), What: "what each agent was told"}}}
	for i, e := range g.candidates {
		label := judge.Label(i)
		for _, f := range e.list {
			if slices.Contains(unnamed, f.Path) {
				at.Files = append(at.Files, judge.File{Path: path.Join(dir, inputsDir, label, f.Path), What: "of candidate " + label + ": " + f.What})
			}
		}
		for _, name := range j.Artifacts {
			what := "what candidate " + label + " has left at " + name
			if _, _, err := e.find(name); err != nil {
				what = "not there: candidate " + label + " has left nothing at " + name
			}
			at.Files = append(at.Files, judge.File{Path: path.Join(dir, inputsDir, label, artifactsInput, path.Clean(name)), What: what})
		}
	}
	return j.AskGroup(g.input(), at)
}

// artifactsInput is the directory of a candidate's artifacts, in that of its inputs.
const artifactsInput = "artifacts"

// Files implements Material.
func (g *groupEvidence) Files(j Judge, dir string) (_, inputs []environment.Copy, err error) {
	instruction := filesOf{artifacts.WorldReadable{FS: os.DirFS(g.candidates[0].dir)}, []string{instructInput}}
	inputs = append(inputs, environment.Copy{Src: instruction, Dst: path.Join(dir, inputsDir), Clean: true})
	for i, e := range g.candidates {
		at := path.Join(dir, inputsDir, judge.Label(i))
		inputs = append(inputs, environment.Copy{Src: filesOf{artifacts.WorldReadable{FS: os.DirFS(e.dir)}, unnamed}, Dst: at})
		for _, name := range j.Artifacts {
			if _, _, err := e.find(name); err != nil {
				continue // the prompt says so
			}
			copies, err := e.artifacts([]string{name})
			if err != nil {
				return nil, nil, err
			}
			for _, c := range copies {
				c.Dst, c.Clean = path.Join(at, artifactsInput, c.Dst), false
				inputs = append(inputs, c)
			}
		}
	}
	return nil, inputs, nil
}

// Read implements Material.
func (g *groupEvidence) Read(j Judge, text []byte) (judge.Verdict, error) {
	r, err := j.ReadRanking(text, len(g.candidates))
	if err == nil {
		g.ranks = r.Ranks
	}
	return r.Verdict, err
}

// filesOf is a file system with some of the files of a directory.
type filesOf struct {
	fs.FS
	names []string
}

// Open implements fs.FS.
func (f filesOf) Open(name string) (fs.File, error) {
	if name != "." && !slices.Contains(f.names, name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return f.FS.Open(name)
}

// ReadDir implements fs.ReadDirFS.
func (f filesOf) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !slices.Contains(f.names, e.Name()) }), err
}
