package environment

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

func link(name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
}

func hard(name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target}
}

// described returns the path, the kind and the target of each link.
func described(links []Link) string {
	all := []string{}
	for _, l := range links {
		all = append(all, fmt.Sprintf("{%s %s %s}", l.Path, l.Kind, l.Target))
	}
	return fmt.Sprint(all)
}

func TestExtractListsLinks(t *testing.T) {
	for name, test := range map[string]struct {
		entries    []tar.Header
		links      string
		incomplete bool
	}{
		"symbolic links, wherever they lead": {
			entries: []tar.Header{link("app/a", "/etc"), {Name: "app/d/"}, link("app/d/up", "../../.."), link("app/d/self", "self"), link("app/a:b", "x")},
			links:   "[{a symbolic /etc} {d/up symbolic ../../..} {d/self symbolic self} {a:b symbolic x}]",
		},
		"hard links come first, and lead to a file of the archive": {
			entries: []tar.Header{file("app/d/f", "x"), link("app/s", "d/f"), hard("app/h", "app/d/f")},
			links:   "[{h hard d/f} {s symbolic d/f}]",
		},
		"a hard link to a link is one more of these": {
			entries: []tar.Header{file("app/f", "x"), link("app/s", "f"), hard("app/t", "app/s"), hard("app/h", "app/f"), hard("app/i", "app/h")},
			links:   "[{h hard f} {i hard f} {s symbolic f} {t symbolic f}]",
		},
		"a hard link to another place":           {entries: []tar.Header{hard("app/h", "etc/passwd")}, links: "[]", incomplete: true},
		"a hard link that leads out":             {entries: []tar.Header{hard("app/h", "app/../etc/passwd")}, links: "[]", incomplete: true},
		"a hard link to a directory":             {entries: []tar.Header{{Name: "app/d/"}, hard("app/h", "app/d")}, links: "[]", incomplete: true},
		"a hard link to nothing":                 {entries: []tar.Header{hard("app/h", "app/f")}, links: "[]", incomplete: true},
		"a file below a link":                    {entries: []tar.Header{link("app/a", "/etc"), file("app/a/passwd", "x")}, links: "[]", incomplete: true},
		"a link in the place of a file":          {entries: []tar.Header{file("app/a", "x"), link("app/a", "/etc")}, links: "[]", incomplete: true},
		"a link below a file":                    {entries: []tar.Header{file("app/a", "x"), link("app/a/b", "/etc")}, links: "[]", incomplete: true},
		"a link below a link":                    {entries: []tar.Header{link("app/a", "/etc"), link("app/a/b", "x")}, links: "[{a symbolic /etc}]", incomplete: true},
		"a hard link below a link":               {entries: []tar.Header{file("app/f", "x"), link("app/a", "/etc"), hard("app/a/b", "app/f")}, links: "[{a/b hard f}]", incomplete: true},
		"two links with one name":                {entries: []tar.Header{link("app/a", "x"), link("app/a", "y")}, links: "[{a symbolic x}]", incomplete: true},
		"a target that is too long":              {entries: []tar.Header{link("app/a", strings.Repeat("x", maxTarget+1))}, links: "[]", incomplete: true},
		"a target that JSON cannot have":         {entries: []tar.Header{link("app/a", "\xff")}, links: "[]", incomplete: true},
		"a device":                               {entries: []tar.Header{link("app/a", "x"), {Name: "app/c", Typeflag: tar.TypeChar}}, links: "[{a symbolic x}]", incomplete: true},
		"pipes, and sockets, which are the same": {entries: []tar.Header{{Name: "app/p", Typeflag: tar.TypeFifo}}, links: "[]"},
		"the source itself":                      {entries: []tar.Header{link("app", "/etc")}, links: "[]", incomplete: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Extract(bytes.NewReader(archive(t, test.entries...)), t.TempDir(), "app", ExtractOptions{})
			if err != nil || described(got.Links) != test.links || got.Incomplete != test.incomplete {
				t.Errorf("%v, %v, incomplete %v; want %s, incomplete %v", err, got.Links, got.Incomplete, test.links, test.incomplete)
			}
		})
	}
}

// Lists of omitted entries are cut, and links are not among them.
func TestExtractListsAllLinks(t *testing.T) {
	var entries []tar.Header
	for i := range 3 * maxListed {
		entries = append(entries, link(fmt.Sprintf("app/%d", i), "x"))
	}
	got, err := Extract(bytes.NewReader(archive(t, entries...)), t.TempDir(), "app", ExtractOptions{})
	if err != nil || len(got.Links) != len(entries) || len(got.Omitted) != maxListed || got.Incomplete {
		t.Errorf("%v, %d links, %d omitted, incomplete %v", err, len(got.Links), len(got.Omitted), got.Incomplete)
	}
	entries = entries[:0]
	long := strings.Repeat("x", maxTarget)
	for i := range maxLinkText/maxTarget + 1 {
		entries = append(entries, link(fmt.Sprintf("app/%d", i), long))
	}
	got, err = Extract(bytes.NewReader(archive(t, entries...)), t.TempDir(), "app", ExtractOptions{})
	if err != nil || !got.Incomplete || len(got.Links) < 4000 || len(got.Links) >= len(entries) {
		t.Errorf("%v, %d of %d links, incomplete %v", err, len(got.Links), len(entries), got.Incomplete)
	}
}

func TestPackLinks(t *testing.T) {
	src := fstest.MapFS{"f": {Data: []byte("f"), Mode: 0o755}, "d": {Mode: fs.ModeDir | 0o755}, "d/g": {Data: []byte("g"), Mode: 0o644}}
	var out bytes.Buffer
	err := Pack(&out,
		Copy{Src: src, Dst: "/app", Links: []Link{{Path: "d/s", Kind: SymbolicLink, Target: "/etc"}, {Path: "new/h", Kind: HardLink, Target: "f"}}},
		Copy{Src: fstest.MapFS{"last": {Mode: 0o644}}, Dst: "/app/d"})
	if err != nil {
		t.Fatal(err)
	}
	var links []string
	archive := tar.NewReader(bytes.NewReader(out.Bytes()))
	for h, err := archive.Next(); err != io.EOF; h, err = archive.Next() {
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, fmt.Sprintf("%c %s %o %s", h.Typeflag, h.Name, h.Mode, h.Linkname))
	}
	const want = "[0 app/d/g 644  0 app/f 755  0 app/d/last 644  1 app/new/h 755 app/f 2 app/d/s 777 /etc]"
	if got := fmt.Sprint(links); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Links may be read from a disk on which somebody has changed them.
func TestPackRefusesLinks(t *testing.T) {
	src := fstest.MapFS{"f": {Mode: 0o644}, "d/g": {Mode: 0o644}}
	symbolic := func(name string) []Link { return []Link{{Path: name, Kind: SymbolicLink, Target: "/etc"}} }
	for name, links := range map[string][]Link{
		"out of the directory":         symbolic("../x"),
		"an absolute path":             symbolic("/etc/x"),
		"the directory itself":         symbolic("."),
		"no path":                      symbolic(""),
		"NUL in a path":                symbolic("a\x00b"),
		"NUL in a target":              {{Path: "a", Kind: SymbolicLink, Target: "a\x00b"}},
		"no target":                    {{Path: "a", Kind: SymbolicLink, Target: ""}},
		"another kind":                 {{Path: "a", Kind: "device", Target: "x"}},
		"in the place of a file":       symbolic("f"),
		"in the place of a directory":  symbolic("d"),
		"in the place of another copy": symbolic("other"),
		"below a file":                 symbolic("f/a"),
		"below a link":                 {{Path: "a", Kind: SymbolicLink, Target: "/etc"}, {Path: "a/passwd", Kind: SymbolicLink, Target: "x"}},
		"a file below a link":          {{Path: "a", Kind: SymbolicLink, Target: "/etc"}, {Path: "a/passwd", Kind: HardLink, Target: "f"}},
		"twice":                        {{Path: "a", Kind: SymbolicLink, Target: "x"}, {Path: "a", Kind: SymbolicLink, Target: "y"}},
		"a hard link that leads out":   {{Path: "a", Kind: HardLink, Target: "../etc/passwd"}},
		"a hard link to a link":        {{Path: "s", Kind: SymbolicLink, Target: "/etc/passwd"}, {Path: "a", Kind: HardLink, Target: "s"}},
		"a hard link to a directory":   {{Path: "a", Kind: HardLink, Target: "d"}},
	} {
		err := Pack(io.Discard, Copy{Src: src, Dst: "/app", Clean: true, Links: links}, Copy{Src: src, Dst: "/app/other/deep"})
		if err == nil || !strings.Contains(err.Error(), "the link ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
