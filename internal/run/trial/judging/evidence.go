package judging

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/model/trajectory"
	"github.com/org/rollout-action/internal/run/trial/artifacts"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// Limits of the evidence that judges see, in bytes.
const (
	maxJudged     = 4 << 30   // of a trajectory of which a transcript is made; one step is in memory
	maxPart       = 16 << 10  // of a message, a call or a result in the transcript
	maxHidden     = 1 << 20   // of such a part before its secrets are hidden
	maxTranscript = 4 << 20   // of transcript.md
	maxInPrompt   = 256 << 10 // of the transcript in a prompt
	maxOutput     = 64 << 10  // of the output of the tests, of the last reply and of an artifact in a prompt
)

// The files that judges see, in the directory inputs of each.
const (
	inputsDir       = "inputs"
	taskInput       = "task.json"
	instructInput   = result.JudgeInstructionFile
	transcriptInput = result.JudgeTranscriptFile
	testsInput      = "tests.json"
	stdoutInput     = "tests-" + result.StdoutFile
	stderrInput     = "tests-" + result.StderrFile
	changesInput    = result.JudgeChangesFile
)

// Evidence holds the files and texts that all judges of a trial see. It does not change after
// WriteEvidence.
type Evidence struct {
	trialDir string // on this machine
	dir      string // on this machine, with the files of list
	list     []judge.File
	kept     []result.Artifact
	omitted  []result.Omission
	renamed  []result.Rename
	warnings []string
	secrets  *redact.Redactor
	steps    []string // the names of those of the task that ran
	shared   judge.Input
}

// WriteEvidence writes the evidence of a trial, redacted, as it is sent to another model. dir is
// the directory of the trial, t its result, and changes the files that the agent has changed; "" if
// they are in the directory already.
func (s Subject) WriteEvidence(dir string, t *result.Trial, changes string, secrets *redact.Redactor) (*Evidence, error) {
	e := &Evidence{
		trialDir: dir, dir: filepath.Join(dir, filepath.FromSlash(result.JudgeInputsDir)), secrets: secrets,
		kept: t.Artifacts, omitted: t.Omitted, renamed: t.Renamed, warnings: t.Warnings,
	}
	for _, step := range t.Steps {
		e.steps = append(e.steps, step.Name)
	}
	if err := os.MkdirAll(e.dir, 0o755); err != nil {
		return nil, environment.MarkMachineError(err)
	}
	instruction, err := s.Task.Instruction()
	if err != nil {
		return nil, failure.Unreadable("instruction.md", err)
	}
	transcript, reply := e.transcript()
	stdout, stderr := e.output(result.VerifierDir, result.StdoutFile), e.output(result.VerifierDir, result.StderrFile)
	in := &e.shared
	in.Task.Name, in.Task.Dataset, in.Task.Instruction = s.Key.Task, s.Key.Dataset, secrets.String(string(instruction))
	in.Task.Metadata = s.Task.Config.Metadata
	in.Trial.Agent, in.Trial.Model, in.Trial.Attempt = s.Agent.Name, s.Agent.Model, s.Key.Attempt
	in.Trial.Reply, in.Trial.Transcript = excerpt.Middle(reply, maxOutput), transcript.Middle(maxInPrompt)
	in.Trial.Stop = t.StopCondition
	if u := t.Usage; u != nil {
		in.Trial.Turns = int(u.Turns)
	}
	if failed := t.Error; failed != nil {
		in.Trial.Error = fmt.Sprintf("%s: %s", failed.Type, failed.Message)
	}
	in.Tests.Reward, in.Tests.Rewards = t.TestsReward, t.Rewards
	in.Tests.Output = excerpt.Middle(strings.TrimSpace(stdout+"\n"+stderr), maxOutput)

	about, err := result.Marshal(map[string]any{
		"name": in.Task.Name, "dataset": in.Task.Dataset, "metadata": in.Task.Metadata, "agent": in.Trial.Agent, "model": in.Trial.Model,
		"attempt": in.Trial.Attempt, "stop_condition": in.Trial.Stop, "error": in.Trial.Error,
	})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", taskInput, err)
	}
	rewards, err := result.Marshal(map[string]any{"reward": in.Tests.Reward, "rewards": in.Tests.Rewards, "exit_code": t.VerifierExitCode})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", testsInput, err)
	}
	for _, file := range []struct{ name, what, text string }{
		{taskInput, "the task and the trial", string(secrets.Bytes(about))},
		{instructInput, "what the agent was told", in.Task.Instruction},
		{transcriptInput, "what the agent said and did, shortened", transcript.Middle(maxTranscript)},
		{testsInput, "the rewards that the tests gave", string(rewards)},
		{stdoutInput, "the output of the tests", excerpt.Middle(stdout, maxTranscript)},
		{stderrInput, "the error output of the tests", excerpt.Middle(stderr, maxTranscript)},
	} {
		if file.text != "" {
			if err := e.write(file.name, file.what, []byte(file.text)); err != nil {
				return nil, err
			}
		}
	}
	if err := e.addChanges(changes); err != nil {
		return nil, err
	}
	err = e.addTrajectory()
	return e, err
}

// write writes a file of the evidence.
func (e *Evidence) write(name, what string, text []byte) error {
	if err := result.WriteFile(filepath.Join(e.dir, name), text); err != nil {
		return environment.MarkMachineError(err)
	}
	e.list = append(e.list, judge.File{Path: name, What: what})
	return nil
}

// addTrajectory adds the trajectory, if there is one. It is a link to the trial's own file.
func (e *Evidence) addTrajectory() error {
	at := filepath.Join(e.dir, result.ATIFFile)
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return environment.MarkMachineError(err)
	}
	switch err := os.Link(filepath.Join(e.trialDir, result.ATIFFile), at); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return environment.MarkMachineError(err)
	}
	e.list = append(e.list, judge.File{Path: result.ATIFFile, What: "all that the agent said and did, in the format ATIF: it may be huge, so look at parts of it"})
	return nil
}

// transcript returns the agent's messages and actions as text, and its last message. Without a
// gateway, both are its output.
func (e *Evidence) transcript() (text *excerpt.Middles, reply string) {
	text, reply, err := e.readTrajectory()
	if err == nil {
		return text, failure.Hide(e.secrets, reply)
	}
	text = &excerpt.Middles{Most: maxTranscript}
	if !errors.Is(err, fs.ErrNotExist) {
		text.WriteString(fmt.Sprintf("(There is no transcript: %v. This is the output of the agent.)\n\n", err))
	}
	stdout := e.output(result.CommandDir, result.StdoutFile)
	if stdout != "" {
		text.WriteString("output of the agent:\n" + trajectory.Quote(strings.TrimRight(stdout, "\n")))
	}
	return text, stdout
}

// readTrajectory reads the trajectory step by step.
func (e *Evidence) readTrajectory() (text *excerpt.Middles, reply string, err error) {
	f, err := os.Open(filepath.Join(e.trialDir, result.ATIFFile))
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > maxJudged {
		return nil, "", errors.Join(err, fmt.Errorf("the trajectory is larger than %d MiB", maxJudged>>20))
	}
	text = &excerpt.Middles{Most: maxTranscript}
	shorten := func(s string) string {
		// A secret must be hidden before it is cut in two, and an escape sequence must not reach
		// beyond the text.
		return excerpt.Middle(failure.Hide(e.secrets, excerpt.Middle(s, maxHidden)), maxPart)
	}
	reply, err = trajectory.Transcript(f, shorten, func(section string) { text.WriteString(section) })
	return text, reply, err
}

// output returns the output of a script, shortened and without escape sequences; "" if there is
// none. If the task has steps, it is that of all steps, each below a line with the step's name.
func (e *Evidence) output(dir, name string) string {
	if len(e.steps) == 0 {
		return e.outputIn(dir, name)
	}
	all := &excerpt.Middles{Most: maxTranscript}
	for _, step := range e.steps {
		if text := e.outputIn(path.Join(result.StepDir(step), dir), name); text != "" {
			all.WriteString("step " + step + ":\n" + strings.TrimSuffix(text, "\n") + "\n")
		}
	}
	return all.Middle(maxTranscript)
}

// outputIn returns the output of a script whose files are in dir.
func (e *Evidence) outputIn(dir, name string) string {
	f, err := os.Open(filepath.Join(e.trialDir, filepath.FromSlash(dir), name))
	if err != nil {
		return ""
	}
	defer f.Close()
	ends := &excerpt.Ends{Size: maxTranscript}
	_, _ = io.Copy(ends, f) // the part that can be read is enough
	return failure.Hide(e.secrets, ends.String())
}

// Files implements Material.
func (e *Evidence) Files(j Judge, dir string) (brought, inputs []environment.Copy, err error) {
	if j.Place() == judge.InFresh {
		brought, err = e.artifacts(j.Artifacts)
	}
	return brought, []environment.Copy{{Src: artifacts.WorldReadable{FS: os.DirFS(e.dir)}, Dst: path.Join(dir, inputsDir), Clean: true}}, err
}

// Ask implements Material.
func (e *Evidence) Ask(j Judge, dir string) (string, error) {
	if dir == "" {
		return j.Ask(e.input(), nil)
	}
	return j.Ask(e.input(), e.paths(dir))
}

// Read implements Material.
func (e *Evidence) Read(j Judge, text []byte) (judge.Verdict, error) { return j.Read(text) }

// paths returns the paths that are named in a judge's prompt.
func (e *Evidence) paths(dir string) *judge.Paths {
	p := &judge.Paths{Dir: dir}
	for _, f := range e.list {
		p.Files = append(p.Files, judge.File{Path: path.Join(dir, inputsDir, f.Path), What: f.What})
	}
	return p
}

// input returns the input of prompts.
func (e *Evidence) input() judge.Input {
	in := e.shared
	in.Artifacts = e.artifactText
	return in
}

// artifactText returns the beginning and the end of a kept file.
func (e *Evidence) artifactText(name string) (string, error) {
	below, _, err := e.find(name)
	if err != nil {
		return "", err
	}
	f, err := nofollow.Open(filepath.Join(e.trialDir, filepath.FromSlash(below)))
	if err != nil {
		return "", fmt.Errorf("the artifact %s cannot be read: %w", name, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("the artifact %s is no file", name)
	}
	ends := &excerpt.Ends{Size: maxOutput}
	if _, err := io.Copy(ends, f); err != nil {
		return "", fmt.Errorf("the artifact %s cannot be read: %w", name, err)
	}
	return ends.String(), nil
}

// find returns the path below the trial's directory at which a path of the agent's environment was
// kept, and the artifact that contains it.
func (e *Evidence) find(name string) (below string, kept result.Artifact, err error) {
	name = path.Clean(name)
	missing := failure.Newf(result.JudgeFailed, "the artifact %s was not kept: the agent's environment does not have it", name)
	for _, k := range e.kept {
		source := path.Clean(k.Source)
		if !artifacts.Within(name, source) {
			continue
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(name, source), "/")
		below := path.Join(k.Path, rest)
		entries, err := artifacts.Entries(os.DirFS(e.trialDir), k)
		if err != nil {
			return "", kept, failure.Newf(result.JudgeFailed, "%v", err)
		}
		if rest == "" || entries == nil {
			return below, k, nil
		}
		if _, on := environment.EntriesBelow(entries, rest); on != "" {
			return path.Join(k.Path, on), k, nil
		}
		links, err := artifacts.Links(os.DirFS(e.trialDir), k)
		if err != nil {
			return "", kept, failure.Newf(result.JudgeFailed, "%v", err)
		}
		if k.Incomplete || slices.ContainsFunc(links, func(l environment.Link) bool { return artifacts.Within(rest, l.Path) }) {
			return below, k, nil // which explains why it is missing
		}
		return "", kept, missing
	}
	for _, warning := range e.warnings { // of keepArtifacts: it is too large, is a link or below one, or something failed
		if strings.HasPrefix(warning, "artifacts after ") {
			return "", kept, failure.Newf(result.JudgeFailed, "the artifact %s was not kept: %s", name, warning)
		}
		for dir := name; dir != "/" && dir != "."; dir = path.Dir(dir) {
			if strings.HasPrefix(warning, "the artifact "+dir+" could not be copied") {
				return "", kept, failure.Newf(result.JudgeFailed, "the artifact %s was not kept: %s", name, warning)
			}
		}
	}
	return "", kept, missing
}

// lacking describes the missing parts of an incomplete artifact.
func (e *Evidence) lacking(kept result.Artifact) string {
	links, _ := artifacts.Links(os.DirFS(e.trialDir), kept) // links are not missing
	var all []string
	for _, o := range e.omitted {
		carried := func(l environment.Link) bool { return path.Join(kept.Path, l.Path) == o.Path }
		if artifacts.Within(o.Path, kept.Path) && !strings.HasSuffix(o.Reason, "named pipe") && !slices.ContainsFunc(links, carried) {
			all = append(all, fmt.Sprintf("%s: %s", path.Join(kept.Source, strings.TrimPrefix(o.Path, kept.Path)), o.Reason))
		}
	}
	entries, _ := artifacts.Entries(os.DirFS(e.trialDir), kept)
	for _, r := range e.renamed {
		carried := func(e environment.Entry) bool { return path.Join(kept.Path, e.OnDisk()) == r.To }
		switch {
		case !artifacts.Within(r.To, kept.Path) || slices.ContainsFunc(entries, carried):
		case entries != nil:
			all = append(all, r.From+": its name has a secret, or is not UTF-8")
		default:
			all = append(all, fmt.Sprintf("%s: it cannot have its name on this machine", r.From))
		}
	}
	switch len(all) {
	case 0:
		return "see the trial's warnings"
	case 1:
		return all[0]
	}
	return fmt.Sprintf("%s, and %d more", all[0], len(all)-1)
}

// artifacts returns the artifacts of a judge as copies for a fresh environment. It is an error if
// one is missing.
func (e *Evidence) artifacts(paths []string) ([]environment.Copy, error) {
	var copies []environment.Copy
	for _, name := range paths {
		below, kept, err := e.find(name)
		if err != nil {
			return nil, err
		}
		if kept.Incomplete {
			return nil, failure.Newf(result.JudgeFailed, "the artifact %s was not kept whole: %s", name, e.lacking(kept))
		}
		links, err := artifacts.Links(os.DirFS(e.trialDir), kept)
		if err != nil {
			return nil, failure.Newf(result.JudgeFailed, "%v", err)
		}
		entries, err := artifacts.Entries(os.DirFS(e.trialDir), kept)
		if err != nil {
			return nil, failure.Newf(result.JudgeFailed, "%v", err)
		}
		one := kept
		one.Source, one.Path = path.Clean(name), below
		if rest := strings.TrimPrefix(strings.TrimPrefix(one.Source, path.Clean(kept.Source)), "/"); rest != "" {
			if links, err = artifacts.LinksBelow(links, rest); err != nil {
				return nil, failure.Newf(result.JudgeFailed, "the artifact %s %v", name, err)
			}
			entries, _ = environment.EntriesBelow(entries, rest)
			one.Executable = nil
			for _, file := range kept.Executable {
				if inner, ok := strings.CutPrefix("/"+file, strings.TrimPrefix(below, kept.Path)); ok {
					one.Executable = append(one.Executable, cmp.Or(strings.TrimPrefix(inner, "/"), "."))
				}
			}
		}
		part, err := artifacts.Copy(os.DirFS(e.trialDir), one, links, entries)
		if err != nil {
			return nil, err
		}
		copies = append(copies, part)
	}
	return copies, nil
}
