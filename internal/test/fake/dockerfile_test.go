package fake_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/fake"
)

// TestDockerfile tests what the conformance suite does not require of every provider.
func TestDockerfile(t *testing.T) {
	for _, tt := range []struct{ name, dockerfile, script, want string }{
		{"variables", "FROM x\nENV A=1 B=\"two words\"\nENV C=$A-$B\nRUN echo $C > /f", "cat /f; echo $C", "1-two words\n1-two words\n"},
		{"the old form of ENV", "FROM x\nENV A b c", "echo $A", "b c\n"},
		{"relative directories add up", "FROM x\nWORKDIR /a\nWORKDIR b\nRUN echo here > f", "pwd; cat /a/b/f", "/a/b\nhere\n"},
		{"files and directories", "FROM x\nWORKDIR /in\nCOPY a.txt .\nCOPY b.txt /in/renamed\nCOPY d /d/\nCOPY d/e/f /bin/\nCOPY . /all", "echo *; cat renamed /d/e/f /bin/f; ls -A /all", "a.txt renamed\nb\nf\nf\n.hidden\nDockerfile\na.txt\nb.txt\nd\n"},
		{"what only matters to docker run is ignored", "FROM x\nLABEL a=b\nCMD y\nRUN true", "echo fine", "fine\n"},
		{"continued lines and comments", "FROM x\nRUN echo a \\\n  # a comment\n  b > /f", "cat /f", "a b\n"},
		{"what a build leaves running is gone", "FROM x\nRUN (sleep 0.05; echo late > /late) & echo now > /f", "sleep 0.1; cat /f; test -e /late || echo none", "now\nnone\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fake.New(fake.Options{World: fake.NewWorld()})
			ref, err := p.BuildImage(ctx, environment.BuildOptions{Context: fstest.MapFS{
				"Dockerfile": {Data: []byte(tt.dockerfile)},
				"a.txt":      {Data: []byte("a\n"), Mode: 0o644}, "b.txt": {Data: []byte("b\n"), Mode: 0o644}, "d/e/f": {Data: []byte("f\n"), Mode: 0o644}, ".hidden": {Mode: 0o644},
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

// TestDockerfileErrorsNameTheLine checks that errors name the line, and a workaround if there is
// one.
func TestDockerfileErrorsNameTheLine(t *testing.T) {
	for _, tt := range []struct{ name, dockerfile, want string }{
		{"no base", "RUN true", "build image: Dockerfile: no build stage in current context"},
		{"a base that is not there", "FROM missing", "build image: Dockerfile: there is no image missing"},
		{"several stages", "FROM x AS one\nFROM x\n", "build image: Dockerfile: the fake environment builds one stage"},
		{"a here-document", "FROM x\nRUN <<EOF\ntrue\nEOF", "build image: Dockerfile:2: the fake environment knows neither lists of words nor here-documents in Dockerfiles"},
		{"a list of words", "FROM x\nRUN [\"true\"]", "build image: Dockerfile:2: the fake environment knows neither lists of words nor here-documents in Dockerfiles"},
		{"a command that fails", "FROM x\n\nRUN exit 3", "build image: Dockerfile:3: the command failed with exit code 3"},
		{"an option that is not known", "FROM x\nCOPY --from=one a b", "build image: Dockerfile:2: the fake environment copies one file or directory of the context, as it is"},
		{"a file that is not there", "FROM x\nCOPY none b", "build image: Dockerfile:2: open none: file does not exist"},
		{"an instruction that is not known", "FROM x\nUSER ghost\nRUN true", "build image: Dockerfile:2: the fake environment does not know USER"},
		{"an ENTRYPOINT", "FROM x\nENTRYPOINT true", "build image: Dockerfile:2: the fake environment does not know ENTRYPOINT"},
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
