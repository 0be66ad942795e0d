package presets

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/internal/test/testprogram"
)

// hostileInstructions are instructions that a shell, an option parser or the kernel could take for
// something else.
func hostileInstructions() map[string]string {
	return map[string]string{
		"a dash":               "-v is the flag to add\n",
		"three dashes":         "---\ntitle: front matter\n---\nDo it.\n",
		"an option of its own": "--help",
		"quotes":               "\"Do 'it' \\\" now\"\n",
		"commands":             "$(touch owned) `touch owned` ${HOME} $HOME ; touch owned & | > owned !! \\\n",
		"unicode":              "ünïcode 漢字 🎉 \u202e\n",
		"line ends of Windows": "one\r\ntwo\r\n",
		"an assignment":        "task=--x=y\n",
		"many bytes":           "--- many\n" + strings.Repeat("A line of it: ünï \"$(touch owned)\".\r\n", 200<<10/36) + "the end\n",
	}
}

// stub records how it was called: its arguments, each ended with a NUL, and its input.
const stub = `printf '%s\0' "$@" >>"$HOME/seen-args"; cat >>"$HOME/seen-input"
`

// delivered records how a preset's program got the instruction.
type delivered struct {
	args  []string
	input string
	text  string // the instruction's file; "": it is not there any more
	file  string // its path
}

// has reports whether the program got the whole instruction, and no prefix of it can be taken for
// an option.
func (d delivered) has(t *testing.T, want string) bool {
	t.Helper()
	// A shell removes line ends at the end of a command substitution.
	same := func(got string) bool { return strings.TrimRight(got, "\n") == strings.TrimRight(want, "\n") }
	end := slices.Index(d.args, "--")
	for i, arg := range d.args {
		_, value, isOption := strings.Cut(arg, "=")
		switch {
		case arg == d.file && d.text == want:
			return true
		case strings.HasPrefix(arg, "--") && isOption && same(value):
			return true
		case same(arg) && end >= 0 && i > end:
			return true
		case strings.HasSuffix(arg, ".rollout-mini.yaml"):
			return same(taskOf(t, arg))
		}
	}
	// A program that is a script of the preset reads the file by its variable.
	return d.input == want || strings.Contains(d.input, `open(os.environ["ROLLOUT_TASK_INSTRUCTION"], encoding="utf-8", newline="")`)
}

// taskOf returns the task in a configuration of mini-swe-agent.
func taskOf(t *testing.T, file string) string {
	t.Helper()
	out, err := exec.Command("python3", "-c", `import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1], encoding="utf-8"))["run"]["task"]))`, file).Output()
	if err != nil {
		t.Fatal(err)
	}
	var task string
	if err := json.Unmarshal(out, &task); err != nil {
		t.Fatal(err)
	}
	return task
}

// startedWith runs the execute script of a preset with an instruction, and with fake programs.
func startedWith(t *testing.T, p Preset, instruction, program string) (delivered, error) {
	t.Helper()
	home := t.TempDir()
	file := filepath.Join(home, "instruction.md")
	python := filepath.Join(home, "agent/venv/bin/python")
	programs := map[string]string{p.Command: program}
	if p.Name == "openhands" { // whose program is the preset's own
		testprogram.Write(t, python, "#!/bin/bash\n"+program)
		if err := os.MkdirAll(filepath.Join(home, "agent/bin"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte(instruction), 0o644); err != nil {
		t.Fatal(err)
	}
	text := "cd \"$HOME\" && export ROLLOUT_TASK_INSTRUCTION=" + Quote(file) + "\n"
	script := strings.NewReplacer(Dir, home+"/agent", "/logs", home+"/logs").Replace(p.Execute(nil))
	out, err := bash(t, home, text+script, programs)
	if err != nil {
		t.Logf("%v\n%.2000s", err, out)
	}
	if _, statErr := os.Stat(filepath.Join(home, "owned")); statErr == nil {
		t.Error("a command in the instruction was run")
	}
	args, _ := os.ReadFile(filepath.Join(home, "seen-args"))
	input, _ := os.ReadFile(filepath.Join(home, "seen-input"))
	left, _ := os.ReadFile(file)
	return delivered{args: strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00"), input: string(input), text: string(left), file: file}, err
}

func TestEveryPresetTakesHostileInstructions(t *testing.T) {
	for _, program := range []string{"node", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			testenv.Lacks(t, "node", program)
		}
	}
	hasYAML := exec.Command("python3", "-c", "import yaml").Run() == nil
	for _, name := range Names() {
		if name == Shell {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := Get(name)
			for what, instruction := range hostileInstructions() {
				long := len(instruction) > MaxArgument
				if long && p.Argument { // a trial refuses it
					continue
				}
				if long && name == "mini-swe-agent" && !hasYAML { // which its installation has
					t.Log("the long instruction is left out: there is no PyYAML")
					continue
				}
				got, err := startedWith(t, p, instruction, stub)
				if err != nil || !got.has(t, instruction) {
					t.Errorf("%s: the program did not get the instruction (%v): arguments %.300q, input %.100q", what, err, got.args, got.input)
				}
			}
		})
	}
}

func TestLinuxTakesTheLongestArgument(t *testing.T) {
	longest := strings.Repeat("x", MaxArgument)
	for _, name := range Names() {
		if p, _ := Get(name); p.Argument {
			if got, err := startedWith(t, p, longest, stub); err != nil || !got.has(t, longest) {
				t.Errorf("%s does not take an instruction of %d bytes: %v", name, len(longest), err)
			}
		}
	}
}

// impatient reads its input as gemini-cli and qwen-code do: it starts itself again, and gives up on
// its input after half a second. It blocks for longer than that, as on a busy machine.
const impatient = `cat >"$HOME/impatient.cjs" <<'EOF'
const fs = require("fs"), { spawnSync } = require("child_process")
const home = process.env.HOME
if (process.argv[2] !== "again") {
  process.stdin.pause()
  process.exit(spawnSync(process.execPath, ["--expose-gc", __filename, "again"], { stdio: "inherit" }).status)
}
// A server of tools, which is started before the input is read, has an input of its own.
fs.writeFileSync(home + "/tool-input", spawnSync(process.execPath, ["-e", "process.stdin.pipe(process.stdout)"], { input: "for the tool" }).stdout)
let data = ""
process.stdin.setEncoding("utf8")
const end = () => {
  fs.writeFileSync(home + "/seen-input", data)
  fs.writeFileSync(home + "/options", String(process.env.NODE_OPTIONS))
  process.exit(data ? 0 : 1)
}
let timer = setTimeout(end, 500)
process.stdin.on("readable", () => {
  for (let chunk; (chunk = process.stdin.read()) !== null; data += chunk) clearTimeout(timer)
})
process.stdin.on("end", end)
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700)
EOF
exec node "$HOME/impatient.cjs"
`

func TestProgramsThatGiveUpOnTheirInputHaveItAtOnce(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		testenv.Lacks(t, "node", "Node.js")
	}
	long := hostileInstructions()["many bytes"]
	for _, options := range []string{"", "--no-warnings"} {
		for _, name := range []string{"gemini-cli", "qwen-code"} {
			t.Run(name+options, func(t *testing.T) {
				t.Parallel()
				p, _ := Get(name)
				set := "export NODE_OPTIONS=" + options + "\n"
				if options == "" {
					set = "unset NODE_OPTIONS\n"
				}
				p.ExecuteScript = set + p.ExecuteScript
				got, err := startedWith(t, p, long, impatient)
				if err != nil || !got.has(t, long) {
					t.Errorf("%v, input %.100q", err, got.input)
				}
				home := filepath.Dir(got.file)
				for file, want := range map[string]string{"tool-input": "for the tool", "options": cmp.Or(options, "undefined")} {
					if text, err := os.ReadFile(filepath.Join(home, file)); err != nil || string(text) != want {
						t.Errorf("%s is %q (%v), not %q", file, text, err, want)
					}
				}
				if _, err := startedWith(t, p, long, "exit 7\n"); err == nil || err.Error() != "exit status 7" {
					t.Errorf("the program ends with code 7, and the script with %v", err)
				}
			})
		}
	}
}
