package dockerfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/providers/sandbox/internal/machine"
)

func TestErrorsSayWhereAndWhat(t *testing.T) {
	for _, c := range []struct {
		name, dockerfile string
		want             []string
	}{
		{"an empty file", "", []string{"Dockerfile:1: file with no instructions"}},
		{"comments only", "# one\n# two\n", []string{"file with no instructions"}},
		{"only ARGs", "ARG a=1\n", []string{"Dockerfile: no FROM"}},
		{"an instruction before FROM", "\nRUN x\nFROM debian:12\n", []string{"Dockerfile:2: RUN before the first FROM"}},
		{"a zero byte", "FROM debian:12\nRUN a\x00b\n", []string{"Dockerfile:2: a zero byte"}},
		{"an image that is not there", "ARG x\n\nFROM nothing\n", []string{"Dockerfile:3: FROM nothing: no image nothing"}},
		{"FROM without a value", "ARG IMAGE\nFROM ${IMAGE}\n", []string{"Dockerfile:2: FROM ${IMAGE} names no image", "default"}},
		{"a required variable", "ARG IMAGE\nFROM ${IMAGE:?which}\n", []string{"Dockerfile:2: ", "which"}},
		{"two directives", "# escape=`\n# escape=`\nFROM debian:12\n", []string{"Dockerfile:", "only one escape"}},
		{"a heredoc without an end", "FROM debian:12\nRUN <<EOF\nx\n", []string{"Dockerfile:2: unterminated heredoc"}},
		{"a source that is not there", "FROM debian:12\nCOPY a nix /b/\n", []string{"Dockerfile:2: COPY: nix is not in the directory"}},
		{"a source above", "FROM debian:12\nCOPY ../../etc/passwd /b/\n", []string{"Dockerfile:2: COPY: etc/passwd is not in the directory"}},
		{"a link that leads nowhere", "FROM debian:12\nCOPY gone /b/\n", []string{"Dockerfile:2: COPY: gone"}},
		{"links in a circle", "FROM debian:12\nCOPY circle /b/\n", []string{"Dockerfile:2: COPY: circle"}},
		{"a bad pattern", "FROM debian:12\nCOPY a[ /b/\n", []string{"Dockerfile:2: ", "syntax error in pattern"}},
		{"a source that is not in a stage", "FROM debian:12 AS x\nFROM debian:12\nCOPY --from=x /nix /b\n", []string{"Dockerfile:3: COPY --from=x: /nix is not there"}},
		{"an image to copy from that is not there", "FROM debian:12\nCOPY --from=nothing /a /b\n", []string{"Dockerfile:2: ", "no image nothing"}},
		{"a directory where a file is", "FROM debian:12\nCOPY d /etc/passwd\n", []string{"Dockerfile:2: COPY: /etc/passwd is a file"}},
		{"a slash after a file", "FROM debian:12\nCOPY a /etc/passwd/\n", []string{"Dockerfile:2: COPY: /etc/passwd is a file"}},
		{"a file beneath a file", "FROM debian:12\nCOPY a /etc/passwd/x\n", []string{"Dockerfile:2: ", "/etc/passwd is"}},
		{"a file where a directory is", "FROM debian:12\nCOPY a /x/a/b\nCOPY a /x/\n", []string{"Dockerfile:3: ", "collide"}},
		{"several files into a file", "FROM debian:12\nCOPY a b /x\n", []string{"Dockerfile:2: COPY of several files needs a directory", "/x/"}},
		{"WORKDIR in a file", "FROM debian:12\nWORKDIR /etc/passwd\n", []string{"Dockerfile:2: WORKDIR: /etc/passwd is a file"}},
		{"WORKDIR of a user that is not there", "FROM debian:12\nUSER who\nWORKDIR /x\n", []string{"Dockerfile:3: WORKDIR /x for the user who"}},
		{"--chown of a user that is not there", "FROM debian:12\nCOPY --chown=who:staff a /x\n", []string{"Dockerfile:2: COPY --chown=who:staff: there is no user who"}},
		{"--chown of a group that is not there", "FROM debian:12\nCOPY --chown=0:who a /x\n", []string{"Dockerfile:2: COPY --chown=0:who: there is no group who"}},
		{"a mount over what is there", "FROM debian:12\nRUN --mount=type=bind,source=d,target=/etc true\n", []string{"Dockerfile:2: ", "/etc exists already", "COPY"}},
		{"a mount over a file", "FROM debian:12\nRUN --mount=type=cache,target=/etc/passwd true\n", []string{"Dockerfile:2: ", "/etc/passwd exists already"}},
		{"a bind of what is not there", "FROM debian:12\nRUN --mount=type=bind,source=nix,target=/x true\n", []string{"Dockerfile:2: RUN --mount=type=bind: nix is not in the directory"}},
		{"a mount without a target", "FROM debian:12\nRUN --mount=type=cache true\n", []string{"Dockerfile:2: RUN --mount=type=cache needs a target"}},
		{"a mount of another kind", "FROM debian:12\nRUN --mount=type=disk,target=/x true\n", []string{"Dockerfile:2: unsupported mount type"}},
		{"--network of another kind", "FROM debian:12\nRUN --network=x true\n", []string{"Dockerfile:2: invalid network mode"}},
		{"a device", "FROM debian:12\nRUN --device=gpu true\n", []string{"Dockerfile:2: RUN --device is not supported"}},
		{"xz", "FROM debian:12\nADD x.tar.xz /\n", []string{"Dockerfile:2: ADD x.tar.xz: it is compressed by xz", "--unpack=false"}},
		{"a broken ignore file", "FROM debian:12\nCOPY a /\n#[", []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := dirOf(c.dockerfile, map[string]string{"a": "a", "b": "b", "d/x": "x", "x.tar.xz": "\xfd7zXZ\x00..."})
			for name, target := range map[string]string{"gone": "nowhere", "circle": "circle2", "circle2": "circle"} {
				dir[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
			}
			if c.want[0] == "" {
				dir[".dockerignore"] = &fstest.MapFile{Data: []byte("[\n")}
			}
			m := newMemory()
			_, err := Build(t.Context(), m, Options{Context: dir})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %q", want, err)
				}
			}
			if _, ok := errors.AsType[*Problem](err); !ok {
				t.Errorf("%T is no problem", err)
			}
			if len(m.commands) > 0 && strings.Contains(c.name, "mount") {
				t.Error("the command ran")
			}
		})
	}
}

func TestMissingDockerfile(t *testing.T) {
	_, err := Build(t.Context(), newMemory(), Options{Context: fstest.MapFS{}})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "Dockerfile") {
		t.Error(err)
	}
}

func TestMissingTarget(t *testing.T) {
	for _, target := range []string{"nix", "2", "-1"} {
		_, err := Build(t.Context(), newMemory(), Options{Context: dirOf("FROM debian:12\nFROM debian:12 AS b\n", nil), Target: target})
		if err == nil || !strings.Contains(err.Error(), target) {
			t.Errorf("%s: %v", target, err)
		}
	}
}

func TestFailedRun(t *testing.T) {
	m := newMemory()
	m.run = func(_ *memoryRoot, c machine.Command) (int, error) {
		if c.Args[2] == "first" {
			return 0, nil
		}
		for i := range 30 {
			fmt.Fprintf(c.Stdout, "line %d\r\n", i)
		}
		fmt.Fprint(c.Stderr, strings.Repeat("é", 3000)+"\n")
		fmt.Fprint(c.Stderr, "the \xff end")
		return 3, nil
	}
	var lines []string
	res, err := Build(t.Context(), m, Options{
		Context:  dirOf("FROM debian:12\nCMD x\nRUN first\nRUN a \\\n  b "+strings.Repeat("c ", 100)+"\nRUN never\n", nil),
		Progress: func(l string) { lines = append(lines, l) },
	})
	step, ok := errors.AsType[*StepError](err)
	if !ok {
		t.Fatalf("%T: %v", err, err)
	}
	if step.Line != 4 || step.ExitCode != 3 || !strings.HasPrefix(step.Instruction, "RUN a b c") || !strings.HasSuffix(step.Instruction, "c…") || len(step.Instruction) > 60 {
		t.Errorf("%+v", step)
	}
	if !strings.HasPrefix(step.Error(), "Dockerfile:4: "+step.Instruction+": exit code 3\n") {
		t.Errorf("%q", step)
	}
	printed := strings.Split(strings.TrimSuffix(step.Output, "\n"), "\n")
	if n := len(printed); n != 32 || printed[0] != "line 0" || printed[n-1] != "the \uFFFD end" || len(step.Output) > maxOutput {
		t.Errorf("%d lines, from %q to %q, %d bytes", n, printed[0], printed[n-1], len(step.Output))
	}
	if long := printed[len(printed)-2]; !strings.HasPrefix(long, "éé") || !strings.HasSuffix(long, "éé") || !strings.Contains(long, " […4000 bytes…] ") || len(long) > maxLine+50 {
		t.Errorf("the long line has %d bytes: %q", len(long), long)
	}
	if len(lines) != 3+32 || lines[3] != "line 0" || len(m.commands) != 2 || len(m.layers) != 1 {
		t.Errorf("%d lines, %d commands, %d layers", len(lines), len(m.commands), len(m.layers))
	}
	if len(res.Notes) != 1 {
		t.Errorf("notes with the error: %q", res.Notes)
	}
}

// The cause may be the first line of a command's output, or the last.
func TestBothEndsOfLongOutputAreKept(t *testing.T) {
	out := newOutput(func(string) {})
	for i := range 5 {
		fmt.Fprintf(out, "%d%s%d\n", i, strings.Repeat("x", 1500), i)
	}
	want := fmt.Sprintf("\n[%d bytes are left out here]\n", 5*1503-maxOutput)
	if got := out.ends(); len(got) != maxOutput+len(want) || !strings.HasPrefix(got, "0xx") || !strings.HasSuffix(got, "x4\n") || !strings.Contains(got, want) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func TestUnavailableMachineFeatures(t *testing.T) {
	broken := errors.New("the disk is full")
	m := newMemory()
	m.run = func(*memoryRoot, machine.Command) (int, error) { return 0, broken }
	_, err := Build(t.Context(), m, Options{Context: dirOf("FROM debian:12\nRUN x\n", nil)})
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "Dockerfile:2: ") {
		t.Error(err)
	}
}

func TestCancelledBuild(t *testing.T) {
	for _, when := range []string{"before", "in a command", "while copying"} {
		t.Run(when, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := newMemory()
			m.run = func(*memoryRoot, machine.Command) (int, error) {
				cancel()
				return 137, nil // as for a killed command
			}
			opts := Options{Context: dirOf("FROM debian:12\nRUN x\nCOPY . /x\nRUN y\n", nil)}
			switch when {
			case "before":
				cancel()
			case "while copying":
				m.run = nil
				opts.Progress = func(line string) {
					if strings.Contains(line, "COPY") {
						cancel()
					}
				}
			}
			_, err := Build(ctx, m, opts)
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if len(m.commands) > 1 {
				t.Error("it went on")
			}
		})
	}
}
