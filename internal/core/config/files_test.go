package config_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/lib/diag"
)

const minimal = "agents: [{name: oracle}]\ndatasets: [{path: dataset}]\n"

// directory creates a directory with these files and an empty directory "dataset".
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "dataset"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// wantProblems compares the text of a diag.List; $DIR stands for dir.
func wantProblems(t *testing.T, err error, dir string, want ...string) {
	t.Helper()
	var list diag.List
	if !errors.As(err, &list) {
		t.Fatalf("got %v, want a diag.List", err)
	}
	got := strings.ReplaceAll(list.Error(), dir, "$DIR")
	if got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestLoadReportsBadFiles(t *testing.T) {
	dir := directory(t, map[string]string{
		"other.yml":       minimal,
		"sub/job.yaml":    minimal,
		"huge.yaml":       minimal + strings.Repeat("# long\n", 200_000),
		"dataset/a/x.txt": "",
		"swe.jsonl":       strings.Repeat(`{"instance_id": "a__b-1", "base_commit": "0"}`+"\n", 30_000),
		"promptfoo.yaml":  "prompts: [p.txt]\nproviders: [openai:gpt-5]\ntests: []\n",
	})
	tests := map[string]struct{ path, want string }{
		"a missing file":                             {"job.yaml", "job.yaml: there is no such file (rollout init makes an example)"},
		"a file with another ending":                 {"other.yaml", `other.yaml: there is no such file (did you mean "other.yml"?)`},
		"a directory":                                {"sub", "sub: this is a directory, not a job file (name the file, such as sub/job.yaml)"},
		"a file that is too large":                   {"huge.yaml", "huge.yaml: the file is larger than 1 MiB (keep long scripts in the image or download them in install)"},
		"a dataset that is in the current directory": {"sub/job.yaml", "sub/job.yaml:2:19: there is no directory $DIR/sub/dataset (paths begin at the job file's directory; from there it is ../dataset)"},
		"data of another tool, however large":        {"swe.jsonl", "swe.jsonl: this is a list of instances of SWE-bench, not a job file (registries have them as tasks, such as swebench-verified (docs/registries.md); rollout mine makes such tasks of a repository's own history)"},
		"a configuration of another tool":            {"promptfoo.yaml", "promptfoo.yaml: this is a configuration of promptfoo, which asserts on single answers of models (Rollout runs agents on tasks: rollout new task makes one, and a judge takes the place of llm-rubric (docs/judges.md))"},
		"empty standard input":                       {"-", "<stdin>: the file is empty (rollout init makes an example)"},
		"an absolute path is shown as it was given":  {filepath.Join(dir, "no.yaml"), "$DIR/no.yaml: there is no such file (rollout init makes an example)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(tt.path, options(dir))
			wantProblems(t, err, dir, tt.want)
		})
	}
}

func TestReadFailureIsNoDiagnostic(t *testing.T) {
	dir := directory(t, map[string]string{"job.yaml": minimal})
	var list diag.List
	_, err := config.Load("job.yaml/below-a-file", options(dir))
	if err == nil || errors.As(err, &list) || !strings.HasPrefix(err.Error(), "read the job file: ") {
		t.Errorf("got %v", err)
	}
	opts := options(dir)
	opts.Stdin = failing{}
	if _, err = config.Load("-", opts); !errors.Is(err, errRead) || errors.As(err, &list) {
		t.Errorf("got %v", err)
	}
}

var errRead = errors.New("cannot be read")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errRead }

func TestMissingTaskIsAWarning(t *testing.T) {
	dir := directory(t, map[string]string{
		"sub/job.yaml":              "agents: [{name: oracle}]\ntasks: [dataset/hello, nowhere]\n",
		"dataset/hello/instruction": "",
	})
	loaded, err := config.Load("sub/job.yaml", options(dir))
	if err != nil {
		t.Fatal(err)
	}
	want := "sub/job.yaml:2:9: warning: there is no directory $DIR/sub/dataset/hello (paths begin at the job file's directory; from there it is ../dataset/hello)"
	if got := strings.ReplaceAll(loaded.Warnings.Error(), dir, "$DIR"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestStandardInput(t *testing.T) {
	dir := directory(t, nil)
	for name, content := range map[string]string{
		"as YAML":                        minimal,
		"as JSON":                        "{\n\t\"name\": \"\\ud83d\\ude00\",\n\t\"agents\": [{\"name\": \"oracle\"}], \"datasets\": [{\"path\": \"dataset\"}]}",
		"as YAML in braces":              "{agents: [{name: oracle}], datasets: [{path: dataset}]}",
		"with a byte order mark":         "\ufeff" + minimal,
		"with Windows' line endings":     strings.ReplaceAll(minimal, "\n", "\r\n"),
		"as JSON with a byte order mark": "\ufeff{\"agents\": [{\"name\": \"oracle\"}], \"datasets\": [{\"path\": \"dataset\"}]}",
		"as YAML after an opening ---":   "---\n" + minimal + "...\n",
	} {
		t.Run(name, func(t *testing.T) {
			opts := options(dir)
			opts.Stdin = strings.NewReader(content)
			loaded, err := config.Load("-", opts)
			if err != nil {
				t.Fatal(err)
			}
			if loaded.File != "<stdin>" || loaded.DatasetDirs[0] != filepath.Join(dir, "dataset") {
				t.Errorf("File %q, DatasetDirs %q", loaded.File, loaded.DatasetDirs)
			}
		})
	}
}

func TestZeroOptionsReadTheProcessEnvironment(t *testing.T) {
	t.Setenv("ROLLOUT_TEST_VALUE", "from-the-host")
	dir := directory(t, map[string]string{"job.yaml": "agents: [{name: a, execute: x, env: {V: '${ROLLOUT_TEST_VALUE}'}}]\ndatasets: [{path: dataset}]\nenvironment: {type: anything}\n"})
	t.Chdir(dir)
	loaded, err := config.Load("job.yaml", config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Env["a"]["V"] != "from-the-host" || len(loaded.Job.Name) != len("2006-01-02__15-04-05") {
		t.Errorf("V %q, name %q", loaded.Env["a"]["V"], loaded.Job.Name)
	}
}

// config.json can be loaded again, and gives the same job.
func TestJobAsJSONIsAJobFile(t *testing.T) {
	for _, file := range jobFiles(t, "valid") {
		t.Run(filepath.ToSlash(file), func(t *testing.T) {
			dir, err := filepath.Abs(filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			first, err := config.Load(filepath.Base(file), options(dir))
			if err != nil {
				t.Fatal(err)
			}
			encoded, err := json.MarshalIndent(first.Job, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			opts := options(dir)
			opts.Stdin = strings.NewReader(string(encoded))
			second, err := config.Load("-", opts)
			if err != nil {
				t.Fatalf("%v\n%s", err, encoded)
			}
			if !reflect.DeepEqual(first.Job, second.Job) || !reflect.DeepEqual(first.Env, second.Env) {
				t.Errorf("got  %+v\nwant %+v", second.Job, first.Job)
			}
			var decoded config.Job
			if err := json.Unmarshal(encoded, &decoded); err != nil {
				t.Fatal(err)
			}
			if again, err := json.MarshalIndent(decoded, "", "  "); err != nil || string(again) != string(encoded) {
				t.Errorf("encoding/json loses something: %v\n%s", err, again)
			}
		})
	}
}
