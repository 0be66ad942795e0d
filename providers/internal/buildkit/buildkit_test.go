package buildkit

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/moby/buildkit/client"
	"github.com/opencontainers/go-digest"
)

func TestBaseImages(t *testing.T) {
	for _, test := range []struct {
		name, dockerfile, want string
		args                   map[string]string
	}{
		{"one", "FROM debian:12\nRUN x", "[debian:12]", nil},
		{"stages and scratch are none", "FROM a AS one\nFROM One AS two\nFROM scratch\nFROM --platform=linux/amd64 b", "[a b]", nil},
		{"arguments are filled in", "ARG A=x\nARG B=${A}:1\nFROM $B", "[x:1]", nil},
		{"given arguments win", "ARG A=x\nFROM ${A:-y}:1\nARG A=z\nFROM $A", "[q:1 q]", map[string]string{"A": "q"}},
		{"nonsense has none", "FROM\n", "[]", nil},
	} {
		if got := fmt.Sprint(BaseImages([]byte(test.dockerfile), test.args)); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestWithoutSyntax(t *testing.T) {
	for _, test := range []struct{ in, out, ref string }{
		{"FROM x\n", "FROM x\n", ""},
		{"# syntax=docker/dockerfile:1\nFROM x\n", "#\nFROM x\n", "docker/dockerfile:1"},
		{"# escape=`\n#syntax = a/b:c\nFROM x\n", "# escape=`\n#\nFROM x\n", "a/b:c"},
		{"FROM x\n# syntax=late\n", "FROM x\n# syntax=late\n", ""},
	} {
		out, ref := WithoutSyntax([]byte(test.in))
		if string(out) != test.out || ref != test.ref {
			t.Errorf("%q: %q, %q", test.in, out, ref)
		}
	}
}

func TestShowStatus(t *testing.T) {
	now := time.Now()
	status := make(chan *client.SolveStatus, 10)
	step := func(name string, cached bool) *client.Vertex {
		return &client.Vertex{Digest: digest.FromString(name), Name: name, Started: &now, Cached: cached}
	}
	log := func(name, text string) *client.VertexLog {
		return &client.VertexLog{Vertex: digest.FromString(name), Data: []byte(text)}
	}
	status <- &client.SolveStatus{Vertexes: []*client.Vertex{step("one", false), {Digest: digest.FromString("later"), Name: "later"}}}
	status <- &client.SolveStatus{Vertexes: []*client.Vertex{step("one", false), step("two", true)}}
	status <- &client.SolveStatus{Logs: []*client.VertexLog{log("one", "a\nhal"), log("two", "other\n"), log("one", "f\n10%\r50%\r\nend")}}
	close(status)
	var shown bytes.Buffer
	out := Lines{Progress: func(line string) { shown.WriteString(line + "|") }}
	showStatus(status, &out)
	if want := "one|two (cached)|a|other|half|50%|end|"; shown.String() != want {
		t.Errorf("got %s, want %s", &shown, want)
	}
}

func TestLinesKeepBothEnds(t *testing.T) {
	var out Lines
	for i := range 50 {
		out.Text(fmt.Sprintf("line %d\n", i))
	}
	out.Text(strings.Repeat("x", 3000))
	out.End()
	tail := strings.Split(out.Tail(), "\n")
	if len(tail) != headLines+1+tailLines || tail[0] != "line 0" || tail[4] != "line 4" || tail[5] != "[123 bytes are left out here]" || tail[6] != "line 21" ||
		tail[35] != strings.Repeat("x", maxLineLen/2)+" […1000 bytes…] "+strings.Repeat("x", maxLineLen/2) {
		t.Errorf("%d lines: %q", len(tail), tail)
	}
}
