package dockerfile

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// dirOf returns a directory with a Dockerfile and other files.
func dirOf(dockerfile string, others map[string]string) fstest.MapFS {
	m := fstest.MapFS{"Dockerfile": {Data: []byte(dockerfile), Mode: 0o644}}
	for name, content := range others {
		m[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	return m
}

func TestStepBuildsOnPreviousStep(t *testing.T) {
	m := newMemory()
	context := dirOf("FROM debian:12\nENV A=1 B=$A\nWORKDIR /app\nCOPY . .\nRUN echo $A\n", map[string]string{"x/y": "why"})
	context["l"] = &fstest.MapFile{Data: []byte("x/y"), Mode: fs.ModeSymlink | 0o777}
	res, err := Build(t.Context(), m, Options{Context: context})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"debian", "layer1", "layer2", "layer3"}; !slices.Equal(res.Image.Layers, want) {
		t.Errorf("layers %q, want %q", res.Image.Layers, want)
	}
	got := m.root(res.Image).minus(m.images["debian:12"].files)
	for _, want := range []string{"/app/ 0755 0:0\n", "/app/l -> x/y\n", `/app/x/y 0644 0:0 "why"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := m.commands[0]; !slices.Equal(got.Args, []string{"/bin/sh", "-c", "echo $A"}) || got.Dir != "/app" {
		t.Errorf("ran %q in %s", got.Args, got.Dir)
	}
}
