package dockerfile

import (
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
)

// offline is a network that is unreachable.
type offline struct{}

func (offline) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no network") }

// FuzzBuild builds hostile Dockerfiles. It must not panic, must call Root within its contract, and
// must give the same result the second time.
func FuzzBuild(f *testing.F) {
	names, err := filepath.Glob("testdata/builds/*.txtar")
	if err != nil || len(names) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(archive.Files[0].Data), "")
	}
	for _, hostile := range []string{
		"FROM debian:12\nRUN <<",
		"FROM debian:12\nRUN <<EOF <<EOF\nEOF\nEOF",
		"FROM debian:12\nCOPY <<a <<a /x/\na\na\n",
		"FROM debian:12\nCOPY <<../../../etc/passwd /x/\n../../../etc/passwd\n",
		"FROM debian:12\nRUN --mount=type=bind,target=../.. x",
		"FROM debian:12\nRUN --mount=type=cache,target=/,mode=777777777777 x",
		"FROM debian:12\nRUN --mount=type=$x,target=$y x",
		"FROM debian:12\nRUN --mount x",
		"FROM debian:12\nCOPY --parents ./././. /././\n",
		"FROM debian:12\nCOPY --parents */./** /x\nCOPY --parents ../d /y\n",
		"FROM debian:12\nCOPY --exclude=! . /x\nCOPY --exclude=[ . /x",
		"FROM debian:12\nCOPY [] /x\nCOPY [\"\"]\nCOPY [\"\",\"\"]\nADD \"\" \"\"",
		"FROM debian:12\nCOPY . .\nCOPY d/ /\nCOPY loop/a /x\nCOPY --chown=: a /y",
		"FROM debian:12\nWORKDIR \nWORKDIR \"\"\nWORKDIR ../../..\nUSER :\nUSER $x",
		"FROM debian:12 AS 0\nFROM 0\nCOPY --from=00 a b",
		"FROM debian:12 AS a\nFROM a AS a\nFROM a\nCOPY --from=A / /x",
		"FROM debian:12 AS a\nCOPY --from=a /x /x",
		"FROM --platform=$TARGETPLATFORM$BUILDPLATFORM debian:12\nFROM --platform=/ debian:12",
		"ARG A=${A:-${B:+${C%%*}}}\nFROM debian:12${A}\nENV =\nENV a=${b/x/y}",
		"FROM debian:12\nONBUILD ONBUILD RUN x\nONBUILD\nHEALTHCHECK --interval=1 CMD\nSHELL []\nRUN []",
		"# syntax=\n# escape=x\nFROM debian:12",
		"{\"syntax\":\"x\"}",
		"\xef\xbb\xbfFROM debian:12\r\nRUN \xff\xfe",
		"FROM debian:12\nADD http://[::1 /x\nADD https://x/%zz /\nADD --checksum=sha256:0 https://x/y /",
		strings.Repeat("FROM debian:12\nCOPY . /x\n", 50),
	} {
		f.Add(hostile, "")
		f.Add(hostile, "**\n!d\n!d/**/x\n[")
	}
	f.Fuzz(func(t *testing.T, dockerfile, ignore string) {
		if len(dockerfile) > 10_000 {
			t.Skip("long texts only take long")
		}
		dir := dirOf(dockerfile, map[string]string{"a": "a", "b.tar": "b", "d/x": "x", "d/e/y": "y", ".dockerignore": ignore})
		dir["loop"] = &fstest.MapFile{Data: []byte("loop/loop"), Mode: fs.ModeSymlink | 0o777}
		dir["up"] = &fstest.MapFile{Data: []byte("../../d"), Mode: fs.ModeSymlink | 0o777}
		m := newMemory()
		opts := Options{Context: dir, HTTP: &http.Client{Transport: offline{}}}
		first, err := Build(t.Context(), m, opts)
		if err != nil {
			if strings.HasPrefix(err.Error(), "Dockerfile") {
				for _, broken := range []string{"put: ", "look: "} {
					if strings.Contains(err.Error(), broken+"\"") {
						t.Fatal(err)
					}
				}
				return
			}
			t.Fatalf("%T without a place: %v", err, err)
		}
		made := len(m.made)
		second, err := Build(t.Context(), m, opts)
		if err != nil || second.ID != first.ID || len(m.made) != made {
			t.Fatalf("the second time: %v, %s and %s, %d layers and %d", err, first.ID, second.ID, made, len(m.made))
		}
	})
}
