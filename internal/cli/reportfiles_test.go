package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/run/prove"
	"github.com/org/rollout-action/reporters"
)

// A format of reports is one entry of the table: with it, there are its flags, its place in help
// and in the Action's input, and the reports of jobs and of proven tasks.
func TestANewReportFormatIsOneTableEntry(t *testing.T) {
	verbose := false
	formats := append(slices.Clone(reporters.All), reporters.Format{
		Name: "haiku", Flag: "haiku", About: "write the job in three lines to this file",
		Options: []reporters.Option{{Flag: "haiku-rhymes", About: "let the lines rhyme", In: func(*reporters.Options) *bool { return &verbose }}},
		Job: func(w io.Writer, in report.Input, _ reporters.Options) error {
			_, err := fmt.Fprintf(w, "three lines about %s\n", in.Job.JobName)
			return err
		},
		Proof: func(w io.Writer, in prove.Report, _ reporters.Options) error {
			_, err := fmt.Fprintf(w, "three lines about %d tasks\n", len(in.Tasks))
			return err
		},
	})
	dir := t.TempDir()
	write(t, dir, "job.yaml", "environment: {type: fake}\nagents: [{name: oracle}]\ndatasets: [{path: evals}]\n")
	writeTask(t, dir, "evals/one")
	write(t, dir, "evals/one/solution/solve.sh", "#!/bin/bash\n")
	vars := map[string]string{}
	rollout := func(args ...string) said {
		var stdout, stderr bytes.Buffer
		getenv := func(name string) (string, bool) {
			if value, ok := vars[name]; ok {
				return value, true
			}
			return os.LookupEnv(name)
		}
		env := Env{Providers: offered, Reporters: formats, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: dir, Now: time.Now, Getenv: getenv}
		code := Main(t.Context(), context.Background(), env, args)
		return said{code, stdout.String(), stderr.String()}
	}
	wants := func(file, text string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != text {
			t.Errorf("%s has %q (%v), want %q", file, got, err, text)
		}
	}
	if help := rollout("run", "--help").stdout; !strings.Contains(help, "--haiku string") || strings.Contains(help, "--report-json") {
		t.Errorf("the help of run lacks --haiku, or lists the rare --report-json:\n%s", help)
	}
	if s := rollout("validate", "evals", "--haiku", "x.txt"); s.code != command.ExitUsage || !strings.Contains(s.stderr, "--haiku is for tasks that are run: it needs --run") {
		t.Errorf("a report of tasks that are not run: %+v", s)
	}
	for _, verb := range []string{"run", "merge", "report", "resume", "verify"} {
		help := rollout(verb, "--help-all").stdout
		for _, part := range []string{"json, junit, markdown, haiku", "--haiku string", "--haiku-rhymes"} {
			if !strings.Contains(help, part) {
				t.Errorf("the help of %s lacks %q:\n%s", verb, part, help)
			}
		}
	}

	s := rollout("run", "job.yaml", "--name", "j", "--github", "off", "--report", "haiku", "--report", "haiku=out/a.txt", "--haiku", "b.txt", "--report", "comment=c.md")
	s.check(t, 0)
	if s.stdout != "three lines about j\n" {
		t.Errorf("run prints more than the report: %q", s.stdout)
	}
	for _, file := range []string{"out/a.txt", "b.txt"} {
		wants(file, "three lines about j\n")
	}
	if _, err := os.Stat(filepath.Join(dir, "c.md")); err != nil {
		t.Errorf("a format without a flag: %v", err)
	}
	if s := rollout("report", "jobs/j", "--github", "off", "--format", "haiku"); s.code != 0 || s.stdout != "three lines about j\n" {
		t.Errorf("--format: %+v", s)
	}
	if s := rollout("resume", "jobs/j", "--github", "off", "--report", "haiku"); s.code != 0 || s.stdout != "three lines about j\n" {
		t.Errorf("resume: %+v", s)
	}
	if s := rollout("validate", "--run", "evals", "--env-type", "fake", "--runs", "1", "--github", "off", "--report", "haiku", "--report", "haiku=d.txt"); s.stdout != "three lines about 1 tasks\n" {
		t.Errorf("validate: %+v", s)
	}
	wants("d.txt", "three lines about 1 tasks\n")

	for input, value := range map[string]string{"COMMAND": "report", "PATHS": "jobs/j", "REPORT": "haiku=e.txt\nmarkdown=f.md", "BASELINE": "none"} {
		vars["INPUT_"+input] = value
	}
	if s := rollout("action"); s.code != 0 {
		t.Errorf("the Action: %+v", s)
	}
	wants("e.txt", "three lines about j\n")
}

func TestReportsThatCannotBeWritten(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"report --report tap=x", `there is no report "tap": want annotations, comment, html, json, junit, markdown`},
		{"run job.yaml --report tap", `there is no report "tap": want annotations, comment, html, json, junit, markdown`},
		{"merge shards --report junit=", `"junit=" names no file`},
		{"verify j --report junit --report json", "--report junit and --report json print two reports: name a file for one of them, as in json=FILE"},
		{"report --format html --report junit", "--format html and --report junit print two reports: name a file for one of them, as in --report junit=FILE"},
		{"report --json --report junit", "--json and --report junit are two things to print: name a file, as in --report junit=FILE"},
		{"validate --run evals --report html=x", `there is no report "html": want annotations, json, junit, markdown`},
		{"validate evals --report json=x", "--report is for tasks that are run: it needs --run"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "jobs/j/config.json", "{}")
			write(t, dir, "jobs/j/plan.json", "{}")
			var stdout, stderr bytes.Buffer
			env := Env{Providers: offered, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: dir, Now: time.Now, Getenv: os.LookupEnv}
			if code := Main(t.Context(), context.Background(), env, strings.Fields(tc.args)); code != command.ExitUsage || !strings.Contains(stderr.String(), tc.want) {
				t.Errorf("exit code %d: %s", code, stderr.String())
			}
		})
	}
}
