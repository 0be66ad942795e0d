package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Training data is what the evaluated agent said. Nothing of judges is in it, wherever they judge,
// also if they have the agent's own model.
func TestExportsLeaveJudgesOut(t *testing.T) {
	const policy, judges = "WORD-OF-THE-POLICY", "WORD-OF-A-JUDGE"
	verdict := `{\"score\": 1, \"reason\": \"` + judges + `\"}`
	dir := t.TempDir()
	for name, text := range map[string]string{
		"job.yaml": `environment: {type: fake}
models:
  mine: {api: scripted, script: mine.yaml, record_tokens: true}
  grader: {api: scripted, script: grader.yaml}
agents: [{name: mine, preset: shell, model: mine, trainable: true}, {name: other, preset: shell, model: mine}]
judges:
  - {name: one, agent: call, model: grader, ` + scored + `}
  - {name: two, model: grader, source: reply, ` + scored + `}
  - {name: three, model: grader, source: reply, placement: fresh, ` + scored + `}
  - {name: four, agent: call, model: policy, ` + scored + `}
  - {name: five, scope: group, agent: call, model: grader}
n_attempts: 2
datasets: [{path: evals}]
`,
		"mine.yaml":                 "rules:\n  - first: How good\n    answers: [{text: \"" + verdict + "\"}]\n    repeat: true\nanswers: [{text: " + policy + "}]\nrepeat: true\n",
		"grader.yaml":               "rules:\n  - first: candidates, called A to D\n    answers: [{text: \"{\\\"reason\\\": \\\"" + judges + "\\\", \\\"ranking\\\": [[\\\"A\\\", \\\"B\\\", \\\"C\\\", \\\"D\\\"]]}\"}]\n    repeat: true\nanswers: [{text: \"" + verdict + "\"}]\nrepeat: true\n",
		"evals/good/task.toml":      "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\n",
		"evals/good/instruction.md": "Do it.\n",
		"evals/good/tests/test.sh":  "#!/bin/bash\necho 1 >/logs/verifier/reward.txt\n",
	} {
		write(t, dir, name, text)
	}
	if o := inDir(t.Context(), t, dir, "run", "job.yaml", "--name", "one"); o.code != 0 {
		t.Fatalf("the job ended with %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	text := map[string]string{}
	read := func(name string) string {
		all, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(all)
	}
	text["outputs.jsonl"] = read("jobs/one/outputs.jsonl")
	for _, format := range []string{"sft", "atif"} {
		o := inDir(t.Context(), t, dir, "export", "jobs/one", "--format", format, "--output", format)
		if o.code != 0 {
			t.Fatalf("export --format %s ended with %d\n%s%s", format, o.code, o.stdout, o.stderr)
		}
		for _, one := range files(t, filepath.Join(dir, format)) {
			text[format] += one
		}
	}
	// --trainable leaves out the other agent.
	for flags, want := range map[string]int{"": 4, "--trainable": 2} {
		o := inDir(t.Context(), t, dir, append([]string{"export", "jobs/one", "--format", "sft"}, strings.Fields(flags)...)...)
		if n := strings.Count(o.stdout, `"messages":`); o.code != 0 || n != want {
			t.Errorf("export %s: exit code %d, %d rows, want %d", flags, o.code, n, want)
		}
	}
	if all := read("jobs/one/mine/evals/good__1/result.json"); strings.Count(all, `"trainable": true`) != 2 || strings.Count(all, `"trainable": false`) != 5 {
		t.Errorf("the trial and its agent are trainable, and no judge is:\n%s", all)
	}
	for what, all := range text {
		if n := strings.Count(all, policy); n < 2 {
			t.Errorf("%s has what the agent said %d times:\n%s", what, n, all)
		}
		if strings.Contains(all, judges) {
			t.Errorf("%s has what a judge said:\n%s", what, all)
		}
	}
	for _, one := range []string{"one", "two", "three", "four", "five"} { // so that the search could find it
		if path := "jobs/one/mine/evals/good__1/judges/" + one + "/trajectory.jsonl"; !strings.Contains(read(path), judges) {
			t.Errorf("%s lacks %s", path, judges)
		}
	}
}
