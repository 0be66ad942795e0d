package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing/fstest" // MapFS: the standard library's in-memory fs.FS

	"github.com/org/rollout-action/internal/environment"
)

// The hello trial: the smallest that goes through every step. It only needs bash.
const (
	helloInstruction = "Write \"Hello, world!\" to /tmp/hello.txt.\n"
	helloInstall     = "echo nothing to install\n"
	helloExecute     = "echo working on \"$(<\"$ROLLOUT_TASK_INSTRUCTION\")\"\necho 'Hello, world!' >/tmp/hello.txt\n"
	helloTest        = "[[ $(</tmp/hello.txt) == 'Hello, world!' ]] && echo 1 >/logs/verifier/reward.txt\n"
)

// instructionPath is job.yaml's default.
const instructionPath = "/tmp/instruction.md"

// beforeStart and beforeTest are the files to copy into the environment, and when.
var beforeStart = []environment.Copy{
	{Src: fstest.MapFS{}, Dst: "/logs/agent", Mode: 0o777},
	{Src: fstest.MapFS{}, Dst: "/logs/verifier", Mode: 0o777},
	{Src: fstest.MapFS{"instruction.md": script(helloInstruction)}, Dst: "/tmp"},
	{Src: fstest.MapFS{"install.sh": script(helloInstall), "execute.sh": script(helloExecute)}, Dst: "/rollout"},
}

var beforeTest = []environment.Copy{
	{Src: fstest.MapFS{"test.sh": script(helloTest)}, Dst: "/tests", Clean: true},
	{Src: fstest.MapFS{}, Dst: "/logs/verifier", Clean: true, Mode: 0o777},
}

func script(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o755} }

// writeHello writes tasks copies of the task below dir with a job file, and returns the path of that. The job's agent has a secret,
// so all output is searched for it, as in real jobs.
func writeHello(dir, image string, tasks int) (string, error) {
	files := map[string]string{}
	var names []string
	for n := range tasks {
		name := fmt.Sprintf("hello-%03d", n+1)
		names = append(names, name)
		files[name+"/task.toml"] = fmt.Sprintf("[environment]\ndocker_image = %q\n", image)
		files[name+"/instruction.md"] = helloInstruction
		files[name+"/tests/test.sh"] = helloTest
	}
	job, err := json.Marshal(map[string]any{
		"tasks": names,
		"agents": []any{map[string]any{
			"name": "hello", "install": helloInstall, "execute": helloExecute,
			"env": map[string]string{"API_KEY": "${" + secretVariable + "}"},
		}},
	})
	if err != nil {
		return "", err
	}
	files["job.json"] = string(job)
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "job.json"), nil
}
