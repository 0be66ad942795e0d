package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/org/rollout-action/internal/cli/command"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestScripts runs testdata/script/*.txtar. Besides testscript's own commands they have
//
//	rollout CODE ARG...        run a command line in this process, and expect this exit code
//	feed FILE CODE ARG...      the same with FILE as standard input
//
// and the variable HARBOR for a directory of tasks made for Harbor.
// Time stands still at 2026-01-02 03:04:05 UTC, or at the variable CLOCK.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			// Tasks made for Harbor.
			harbor, err := filepath.Abs(filepath.Join("..", "run", "trial", "testdata", "harbor"))
			env.Setenv("HARBOR", harbor)
			return err
		},
		RequireUniqueNames: true,
		Condition: func(name string) (bool, error) {
			if name != "cache" {
				return false, fmt.Errorf("there is no condition %s", name)
			}
			return os.Geteuid() == 0, nil // testscript's HOME is /no-home, which others than root cannot make
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"rollout": func(ts *testscript.TestScript, neg bool, args []string) {
				inProcess(ts, neg, "", args)
			},
			"feed": func(ts *testscript.TestScript, neg bool, args []string) {
				if len(args) == 0 {
					ts.Fatalf("feed wants a file")
				}
				inProcess(ts, neg, ts.ReadFile(args[0]), args[1:])
			},
		},
	})
}

func inProcess(ts *testscript.TestScript, neg bool, stdin string, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("want an exit code and arguments; ! has no meaning here")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if at := ts.Getenv("CLOCK"); at != "" {
		clock, err = time.Parse(time.RFC3339, at)
		ts.Check(err)
	}
	var said bytes.Buffer
	env := Env{
		Providers: offered,
		Stdin:     strings.NewReader(stdin),
		Stdout:    io.MultiWriter(ts.Stdout(), &said),
		Stderr:    io.MultiWriter(ts.Stderr(), &said),
		Dir:       ts.MkAbs("."),
		Now:       func() time.Time { return clock },
		Getenv: func(name string) (string, bool) {
			value := ts.Getenv(name)
			return value, value != ""
		},
	}
	if got := Main(context.Background(), context.Background(), env, args[1:]); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	runPrinted(ts, env, said.String())
}

// TestHelp holds every help text against its golden file, and to two examples.
func TestHelp(t *testing.T) {
	a := command.New(context.Background(), System(), "", "")
	lines := [][]string{{}}
	for _, c := range newRoot(a).Commands() {
		if c.Name() != "help" && c.Name() != "completion" {
			lines = append(lines, []string{c.Name()})
		}
	}
	lines = append(lines, []string{"run", "--help-all"}) // which --help behind it does not make shorter
	for _, line := range lines {
		name := strings.ReplaceAll(strings.Join(append([]string{"rollout"}, line...), "-"), "---help", "")
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			env := System()
			env.Stdout, env.Stderr = &out, &out
			if code := Main(t.Context(), t.Context(), env, append(line, "--help")); code != 0 {
				t.Errorf("exit code %d", code)
			}
			golden := filepath.Join("testdata", "help", name+".golden")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != string(want) {
				t.Errorf("the help text differs from %s (-update rewrites it):\n%s", golden, out.String())
			}
			_, examples, _ := strings.Cut(out.String(), "Examples:\n")
			examples, _, _ = strings.Cut(examples, "\n\n")
			if n := strings.Count(examples, "  rollout "); n < 2 {
				t.Errorf("%d examples, want two", n)
			}
			if !strings.Contains(out.String(), "Exit codes:") {
				t.Error("the exit codes are missing")
			}
		})
	}
}
