package fake_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/fake"
)

// TestDockerfile: what the conformance suite does not ask of every provider.
func TestDockerfile(t *testing.T) {
	for _, tt := range []struct{ name, dockerfile, script, want string }{
		{"a list of words is one command", `FROM x` + "\n" + `RUN ["bash", "-c", "echo 'a  b' > /f"]`, "cat /f", "a  b\n"},
		{"an argument before FROM", "ARG BASE=x\nARG TAG\nFROM $BASE:${TAG:-1}\nRUN echo fine > /f", "cat /f", "fine\n"},
		{"an argument from outside", "FROM x\nARG WHO=me\nENV FOR=$WHO\nRUN echo $FOR $WHO > /f", "cat /f; echo $FOR", "you you\nyou\n"},
		{"the old form of ENV", "FROM x\nENV A b c", "echo $A", "b c\n"},
		{"relative directories add up", "FROM x\nWORKDIR /a\nWORKDIR b\nRUN echo here > f", "pwd; cat /a/b/f", "/a/b\nhere\n"},
		{"a user and a group", "FROM x\nUSER 12:34\nRUN id -u > /tmp/f; id -g >> /tmp/f", "cat /tmp/f; id -u", "12\n34\n12\n"},
		{"several sources", "FROM x\nCOPY a.txt b.txt d/e /in/\nCOPY d /d\nCOPY a.txt /in/renamed\nCOPY --chmod=755 d/e/f /bin/tool", "cd /in; echo *; find /d | sort; cat renamed; stat -c %a /bin/tool",
			"a.txt b.txt f renamed\n/d\n/d/e\n/d/e/f\na\n755\n"},
		{"what only matters to docker run is ignored", "FROM x\nLABEL a=b\nEXPOSE 80\nVOLUME /v\nHEALTHCHECK NONE\nSTOPSIGNAL KILL\nCMD y\nRUN true", "echo fine", "fine\n"},
		{"continued lines and comments", "FROM x\nRUN echo a \\\n  # a comment\n  b > /f", "cat /f", "a b\n"},
		{"what a build leaves running is gone", "FROM x\nRUN (sleep 0.05; echo late > /late) & echo now > /f", "sleep 0.1; cat /f; test -e /late || echo none", "now\nnone\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fake.New(fake.Options{World: fake.NewWorld()})
			ref, err := p.BuildImage(ctx, environment.BuildOptions{Args: map[string]string{"WHO": "you"}, Context: fstest.MapFS{
				"Dockerfile": {Data: []byte(tt.dockerfile)},
				"a.txt":      {Data: []byte("a\n"), Mode: 0o644}, "b.txt": {Data: []byte("b\n"), Mode: 0o644}, "d/e/f": {Data: []byte("f\n"), Mode: 0o644},
			}})
			if err != nil {
				t.Fatal(err)
			}
			env, err := p.CreateEnvironment(ctx, environment.CreateOptions{Image: ref})
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := run(t, env, tt.script, environment.ExecOptions{}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestDockerfileProblems names the line, and the way out where there is one.
func TestDockerfileProblems(t *testing.T) {
	for _, tt := range []struct{ name, dockerfile, want string }{
		{"no base", "RUN true", "build image: Dockerfile: no build stage in current context"},
		{"a base that is not there", "FROM missing", "build image: Dockerfile: there is no image missing"},
		{"several stages", "FROM x AS one\nFROM x\n", "build image: Dockerfile: the fake environment builds one stage"},
		{"a here-document", "FROM x\nRUN <<EOF\ntrue\nEOF", "build image: Dockerfile:2: the fake environment does not know here-documents in Dockerfiles"},
		{"a command that fails", "FROM x\n\nRUN exit 3", "build image: Dockerfile:3: the command failed with exit code 3"},
		{"an option that is not known", "FROM x\nCOPY --from=one a b", "build image: Dockerfile:2: the fake environment knows only files of the context, and --chmod"},
		{"an unknown user", "FROM x\nUSER ghost\nRUN true", "build image: Dockerfile:3: start command: there is no user ghost"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fake.New(fake.Options{World: fake.NewWorld()})
			_, err := p.BuildImage(ctx, environment.BuildOptions{Context: fstest.MapFS{"Dockerfile": {Data: []byte(tt.dockerfile)}}})
			var e *environment.Error
			if !errors.As(err, &e) || e.Kind != environment.KindBuild {
				t.Fatalf("error %v, want one of kind build", err)
			}
			if got, _, _ := strings.Cut(err.Error(), "\n"); got != tt.want {
				t.Errorf("got %q\nwant %q", got, tt.want)
			}
		})
	}
}
