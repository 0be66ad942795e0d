package dockerfile

import (
	"io/fs"
	"maps"
	"slices"
	"testing"
	"testing/fstest"
	"time"
)

// keysOf builds, and returns the keys of the requested layers.
func keysOf(t *testing.T, dir fstest.MapFS, opts Options) []string {
	t.Helper()
	m := newMemory()
	opts.Context, opts.Platform = dir, "linux/amd64"
	if _, err := Build(t.Context(), m, opts); err != nil {
		t.Fatal(err)
	}
	return m.asked
}

// same returns the length of the common prefix of two lists of keys.
func same(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func TestKeys(t *testing.T) {
	const dockerfile = `FROM debian:12 AS tools
WORKDIR /t
COPY tool /t/tool
FROM debian:12
ARG BEFORE=1
RUN first
ARG AFTER=1
RUN second
COPY d /d
COPY --from=tools /t/tool /t/
COPY --chown=agent --chmod=755 f /f
RUN --mount=type=bind,source=m,target=/m third
ADD a /
`
	files := func() fstest.MapFS {
		dir := dirOf(dockerfile, map[string]string{"tool": "t", "d/x": "x", "d/sub/y": "y", "f": "f", "m": "m", "a": "a", "unused": "u"})
		dir["d/l"] = &fstest.MapFile{Data: []byte("x"), Mode: fs.ModeSymlink | 0o777}
		return dir
	}
	write := func(content string) func(fstest.MapFS, *Options) {
		return func(dir fstest.MapFS, _ *Options) {
			dir["Dockerfile"] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
		}
	}
	replace := func(old, now string) func(fstest.MapFS, *Options) {
		return func(dir fstest.MapFS, o *Options) { write(replaceOnce(t, dockerfile, old, now))(dir, o) }
	}
	arg := func(k, v string) func(fstest.MapFS, *Options) {
		return func(_ fstest.MapFS, o *Options) { o.Args = map[string]string{k: v} }
	}
	const all = 9
	for _, c := range []struct {
		name   string
		change func(fstest.MapFS, *Options)
		kept   int // how many layers, from the beginning, keep their keys
	}{
		{"nothing changed", func(fstest.MapFS, *Options) {}, all},
		{"a comment and blank lines", replace("RUN first\n", "\n# why\n\nRUN first\n"), all},
		{"an instruction without effect", replace("ADD a /", "LABEL a=b\nADD a /"), all},
		{"a file that nothing copies", func(d fstest.MapFS, _ *Options) { d["unused"].Data = []byte("other") }, all},
		{"times of files", func(d fstest.MapFS, _ *Options) { d["d/x"].ModTime = time.Unix(1e9, 0) }, all},
		{"fresh", func(_ fstest.MapFS, o *Options) { o.Fresh = true }, all},
		{"a proxy", arg("http_proxy", "http://p"), all},
		{"an argument that nothing declares", arg("NONE", "1"), all},
		{"an ENV that is the last instruction", replace("ADD a /", "ADD a /\nENV LAST=1"), all},
		{"an ARG changes the RUNs after it", arg("BEFORE", "2"), 2},
		{"an ARG does not change a RUN before it", arg("AFTER", "2"), 3},
		{"the command", replace("RUN second", "RUN  second"), all}, // the parser drops that space
		{"another command", replace("RUN second", "RUN second "+"x"), 3},
		{"the exec form of the same words", replace("RUN first", `RUN ["first"]`), 2},
		{"the user of a RUN", replace("RUN second", "USER 5\nRUN second"), 3},
		{"the directory of a RUN", replace("RUN second", "WORKDIR /\nWORKDIR tmp\nRUN second"), 3},
		{"the shell of a RUN", replace("RUN second", "SHELL [\"/bin/bash\",\"-c\"]\nRUN second"), 3},
		{"the network of a RUN", replace("RUN second", "RUN --network=none second"), 3},
		{"a file's content", func(d fstest.MapFS, _ *Options) { d["d/x"].Data = []byte("z") }, 4},
		{"a file's name", func(d fstest.MapFS, _ *Options) { d["d/z"] = d["d/x"]; delete(d, "d/x") }, 4},
		{"a file's mode", func(d fstest.MapFS, _ *Options) { d["d/x"].Mode = 0o755 }, 4},
		{"one more file", func(d fstest.MapFS, _ *Options) { d["d/sub/z"] = d["f"] }, 4},
		{"where a link leads", func(d fstest.MapFS, _ *Options) { d["d/l"].Data = []byte("y") }, 4},
		{"a link instead of a file with the same text", func(d fstest.MapFS, _ *Options) { d["d/l"].Mode = 0o777 }, 4},
		{"the destination", replace("COPY d /d", "COPY d /e"), 4},
		{"a destination that is said to be a directory", replace("COPY d /d", "COPY d /d/"), 4},
		{"COPY of other excludes", replace("COPY d /d", "COPY --exclude=nix d /d"), 4},
		{"a file of a stage that is copied from", func(d fstest.MapFS, _ *Options) { d["tool"].Data = []byte("z") }, 1},
		{"the owner", replace("--chown=agent", "--chown=5"), 6},
		{"the mode that is set", replace("--chmod=755", "--chmod=700"), 6},
		{"a file in a bind mount", func(d fstest.MapFS, _ *Options) { d["m"].Data = []byte("z") }, 7},
		{"the target of a bind mount", replace("target=/m", "target=/n"), 7},
		{"a file that .dockerignore hides now", func(d fstest.MapFS, _ *Options) { d[".dockerignore"] = &fstest.MapFile{Data: []byte("d/sub")} }, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := keysOf(t, files(), Options{})
			if len(before) != all {
				t.Fatalf("%d layers, want %d", len(before), all)
			}
			dir, opts := files(), Options{}
			c.change(dir, &opts)
			after := keysOf(t, dir, opts)
			if got := same(before, after); got != c.kept {
				t.Errorf("%d of %d keys are the same, want %d", got, all, c.kept)
			}
		})
	}
}

func TestFieldsOfAKeyAreNotConfused(t *testing.T) {
	seen := map[string]string{}
	for name, fill := range map[string]func(key){
		"ab, c":       func(k key) { k.text("ab", "c") },
		"a, bc":       func(k key) { k.text("a", "bc") },
		"abc, empty":  func(k key) { k.text("abc", "") },
		"list of ab":  func(k key) { k.list([]string{"a", "b"}) },
		"a, list b":   func(k key) { k.text("a"); k.list([]string{"b"}) },
		"list a, b":   func(k key) { k.list([]string{"a"}); k.text("b") },
		"empty":       func(key) {},
		"empty list":  func(k key) { k.list(nil) }, // a single empty text looks the same, but no field is either at will
		"list of one": func(k key) { k.list([]string{""}) },
		"yes":         func(k key) { k.flag(true) },
	} {
		k := newKey("test")
		fill(k)
		if other, ok := seen[k.String()]; ok {
			t.Errorf("%s and %s have the same key", name, other)
		}
		seen[k.String()] = name
	}
}

func TestIDCoversContentAndConfiguration(t *testing.T) {
	id := func(dockerfile string, opts Options) string {
		opts.Context = dirOf(dockerfile, map[string]string{"f": "f"})
		res, err := Build(t.Context(), newMemory(), opts)
		if err != nil {
			t.Fatal(err)
		}
		return res.ID
	}
	const base = "FROM debian:12\nCOPY f /f\n"
	want := id(base, Options{})
	for name, c := range map[string]struct {
		dockerfile string
		opts       Options
		same       bool
	}{
		"made again":                {base, Options{}, true},
		"made fresh":                {base, Options{Fresh: true}, true},
		"the order of ENV":          {base + "ENV B=1 A=1", Options{}, false},
		"an ENV":                    {base + "ENV A=1", Options{}, false},
		"a USER":                    {base + "USER 1", Options{}, false},
		"a WORKDIR that is there":   {base + "WORKDIR /", Options{}, true},
		"a SHELL":                   {base + `SHELL ["/bin/bash","-c"]`, Options{}, false},
		"a build argument":          {base + "ARG A=1", Options{}, true},
		"what an unused stage does": {"FROM debian:12 AS x\nRUN y\n" + base, Options{}, true},
	} {
		if got := id(c.dockerfile, c.opts); (got == want) != c.same {
			t.Errorf("%s: the same ID is %t, want %t", name, got == want, c.same)
		}
	}
	if a, b := id(base+"ENV B=1 A=1", Options{}), id(base+"ENV A=1 B=1", Options{}); a != b {
		t.Error("the order in which variables are set changes the ID")
	}
}

func TestStoredLayersAreNotMadeAgain(t *testing.T) {
	m := newMemory()
	dir := dirOf("FROM debian:12\nCOPY f /f\nRUN x\n", map[string]string{"f": "f"})
	var lines []string
	build := func(fresh bool) Result {
		t.Helper()
		lines = nil
		res, err := Build(t.Context(), m, Options{Context: dir, Fresh: fresh, Progress: func(l string) { lines = append(lines, l) }})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	first := build(false)
	second := build(false)
	if want := []string{"[1/3] FROM debian:12", "[2/3] COPY f /f (cached)", "[3/3] RUN x (cached)"}; !slices.Equal(lines, want) {
		t.Errorf("the second build says %q", lines)
	}
	if len(m.commands) != 1 || !slices.Equal(first.Image.Layers, second.Image.Layers) {
		t.Errorf("%d commands, layers %q and %q", len(m.commands), first.Image.Layers, second.Image.Layers)
	}
	fresh := build(true)
	if len(m.commands) != 2 || fresh.ID != first.ID || slices.Equal(fresh.Image.Layers, first.Image.Layers) {
		t.Errorf("fresh: %d commands, %s, layers %q", len(m.commands), fresh.ID, fresh.Image.Layers)
	}
	if again := build(false); !slices.Equal(again.Image.Layers, fresh.Image.Layers) {
		t.Errorf("what was made fresh is not used: %q", again.Image.Layers)
	}
	if got := slices.Sorted(maps.Keys(m.layers)); len(got) != 2 {
		t.Errorf("%d keys", len(got))
	}
	if first.Image.Base != "the base" {
		t.Errorf("base %v", first.Image.Base)
	}
}
