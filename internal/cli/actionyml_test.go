package cli

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/action"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/config"
)

// noVerbs are commands of the Action that stand for no command line: a workflow alone knows that
// its run was cancelled.
var noVerbs = []string{"withdraw"}

// Every input that becomes a flag does so for commands that have the flag.
func TestInputsAreFlags(t *testing.T) {
	commands := map[string]func(string) bool{}
	for _, c := range newRoot(command.New(context.Background(), System(), "", "")).Commands() {
		commands[c.Name()] = func(flag string) bool { return c.Flags().Lookup(flag) != nil }
	}
	for _, in := range action.Inputs() {
		for _, command := range in.Commands {
			switch has, ok := commands[command]; {
			case slices.Contains(noVerbs, command):
				if ok {
					t.Errorf("there is a command %s", command)
				}
			case !ok:
				t.Errorf("%s: there is no command %s", in.Name, command)
			case in.IsFlag() && !has(in.Name):
				t.Errorf("%s has no flag --%s", command, in.Name)
			}
		}
	}
}

// ofNoInput are the flags that a workflow has no use for: its machine is a fresh one also when a
// run is repeated, so that there is no job to resume, and its job is a file of the repository.
// Instead of a file with variables there is the input env. Some are of no use with one command
// alone.
var ofNoInput = []string{
	"run path", "run registry", "run task-format", "run files", "run install", "run execute", "run agent-env", "run cache-install", "run save-job", "dry-run",
	"validate run", "validate offline", "validate agent", "validate n-attempts", "validate models", "help", helpAll, "json", "github", "log-format", "move", "format", "junit-case-files", "resume", "retry-errors", "only-failed", "env-file", "fail-fast", "rerun", "power",
}

func TestFlagsAreInputs(t *testing.T) {
	inputs := map[string]bool{}
	for _, in := range action.Inputs() {
		for _, command := range in.Commands {
			inputs[command+" "+in.Name] = true
		}
	}
	for _, c := range newRoot(command.New(context.Background(), System(), "", "")).Commands() {
		if !slices.Contains(action.Commands(), c.Name()) {
			continue
		}
		for _, line := range strings.Split(c.Flags().FlagUsages(), "\n") {
			if flag := regexp.MustCompile(`--([a-z-]+)`).FindStringSubmatch(line); flag != nil && !inputs[c.Name()+" "+flag[1]] && !slices.Contains(ofNoInput, flag[1]) && !slices.Contains(ofNoInput, c.Name()+" "+flag[1]) {
				t.Errorf("%s --%s can be set by no input", c.Name(), flag[1])
			}
		}
	}
}

// action.yml stands at the top of the repository, where users' workflows find it.
func TestActionFile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "action.yml"))
	stepMust(t, err)
	var file struct {
		Inputs map[string]struct {
			Description, Default string
		}
		Outputs map[string]struct{ Description string }
		Runs    map[string]string
	}
	stepMust(t, yaml.Unmarshal(text, &file))
	for _, in := range action.Inputs() {
		stated, ok := file.Inputs[in.Name]
		if !ok {
			t.Errorf("action.yml lacks the input %s", in.Name)
		}
		if in.Name == "github-token" {
			in.Default = "${{ github.token }}"
		}
		if stated.Default != in.Default {
			t.Errorf("action.yml: %s is %q by default, want %q", in.Name, stated.Default, in.Default)
		}
		if len(stated.Description) < 20 {
			t.Errorf("action.yml: %s is described as %q", in.Name, stated.Description)
		}
		if who, _, _ := strings.Cut(stated.Description, ":"); len(in.Commands) < len(action.Commands()) &&
			who != strings.Join(in.Commands, ", ") && who != "plan with shards auto" && !slices.ContainsFunc(config.GateKeys(), func(k config.GateKey) bool { return k.Flag() == in.Name }) {
			if in.Name != "paths" { // says something of each
				t.Errorf("action.yml: %s is for %q, want %q", in.Name, who, strings.Join(in.Commands, ", "))
			}
		}
		delete(file.Inputs, in.Name)
	}
	for name := range file.Inputs {
		t.Errorf("action.yml has the input %s, which nobody reads", name)
	}
	want := []string{"baseline", "broken", "fixed", "junit-path", "mean-reward", "matrix", "pass-rate", "result-path", "round", "shards", "total-cost", "total-cost-exact", "verdict"}
	for _, name := range want {
		if file.Outputs[name].Description == "" {
			t.Errorf("action.yml lacks the output %s", name)
		}
		delete(file.Outputs, name)
	}
	for name := range file.Outputs {
		t.Errorf("action.yml promises the output %s", name)
	}
	if file.Runs["using"] != "docker" || file.Runs["post-entrypoint"] != "/rollout-post" {
		t.Errorf("action.yml runs %v", file.Runs)
	}
}
