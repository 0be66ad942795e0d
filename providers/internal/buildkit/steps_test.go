package buildkit

import (
	"errors"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func TestHeredocsThatABuilderDoesNotKnow(t *testing.T) {
	const heredocs = "FROM a\nRUN <<EOF\necho a\nEOF\nCOPY <<EOF /x\nb\nEOF\n"
	for _, tc := range []struct {
		dockerfile, err string
		want            bool
	}{
		{heredocs, "dockerfile parse error line 3: unknown instruction: ECHO", true},
		{heredocs, `Unknown instruction: "ECHO"`, true},
		{heredocs, `failed to compute cache key: "/<<EOF" not found: not found`, true},
		{heredocs, "COPY failed: file not found in build context: stat <<EOF: file does not exist", true},
		{heredocs, "pull access denied", false},
		{heredocs, `executor failed running [/bin/sh -c cat <<EOF]: exit code: 1`, false},
		{"FROM a\nECHO a\n", "dockerfile parse error line 2: unknown instruction: ECHO", false},
		{"", "unknown instruction", false},
	} {
		if hint := HintOf([]byte(tc.dockerfile), errors.New(tc.err)); (hint != "") != tc.want {
			t.Errorf("%q: the hint is %q", tc.err, hint)
		}
	}
}

func TestLineOfStep(t *testing.T) {
	const one = "ARG A=1\nFROM a\n\nENV X=1\nRUN one \\\n  two\nWORKDIR /x\nCOPY a b\n"
	const many = "FROM a AS first\nRUN one\nFROM b\nRUN two\nfrom first as third\nRUN three\n"
	for _, tc := range []struct {
		dockerfile, step string
		want             int
	}{
		{one, "[1/4] FROM docker.io/a", 2},
		{one, "[2/4] RUN one   two", 5},
		{one, "[4/4] COPY a b", 8},
		{one, "[4/4] RUN a b", 0},
		{one, "[internal] load build context", 0},
		{one, "", 0},
		{many, "[first 2/2] RUN one", 2},
		{many, "[stage-1 2/2] RUN two", 4},
		{many, "[third 2/2] RUN three", 6},
		{many, "[fourth 2/2] RUN three", 0},
		{many, "[99999999999999999999 2/2] RUN x", 0},
	} {
		parsed, err := parser.Parse(strings.NewReader(tc.dockerfile))
		if err != nil {
			t.Fatal(err)
		}
		if got := lineOfStep(parsed.AST.Children, tc.step); got != tc.want {
			t.Errorf("%q of\n%s\nis line %d, want %d", tc.step, tc.dockerfile, got, tc.want)
		}
	}
}
