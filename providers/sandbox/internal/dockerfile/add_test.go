package dockerfile

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/providers/sandbox/internal/machine"
)

func TestAddUnpacksArchives(t *testing.T) {
	plain := tarOf(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "./dir/", Mode: 0o750, Uid: 5, Gid: 6},
		tar.Header{Typeflag: tar.TypeReg, Name: "dir/tool", Mode: 0o4755, Uid: 5, Gid: 6, Uname: "agent"},
		tar.Header{Typeflag: tar.TypeLink, Name: "dir/same", Linkname: "dir/tool", Mode: 0o4755},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "../../etc/passwd"},
		tar.Header{Typeflag: tar.TypeReg, Name: "../../out", Mode: 0o644},
		tar.Header{Typeflag: tar.TypeReg, Name: "/abs", Mode: 0o644},
	)
	bzipped, err := base64.StdEncoding.DecodeString(strings.TrimSpace(readFile(t, "testdata/small.tar.bz2.base64")))
	if err != nil {
		t.Fatal(err)
	}
	unpacked := `/dest/ 0755 0:0
/dest/abs 0644 0:0 "content of /abs"
/dest/dir/ 0750 5:6
/dest/dir/same 4755 5:6 "content of dir/tool"
/dest/dir/tool 4755 5:6 "content of dir/tool"
/dest/link -> ../../etc/passwd
/dest/out 0644 0:0 "content of ../../out"
`
	for _, c := range []struct {
		name, add string
		file      []byte
		want      string
	}{
		{"without compression", "ADD file /dest", plain, unpacked},
		{"gzip", "ADD file /dest/", gzipped(t, plain), unpacked},
		{"zstd", "ADD file /dest", zstandard(t, plain), unpacked},
		{"bzip2", "ADD file /dest", bzipped, "/dest/ 0755 0:0\n/dest/hello 0644 0:0 \"hello\\n\"\n"},
		{
			"with an owner and a mode, which is not for what is unpacked", "ADD --chown=agent --chmod=700 file /dest", gzipped(t, tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "x", Mode: 0o644})),
			"/dest/ 0700 1000:100\n/dest/x 0644 1000:100 \"content of x\"\n",
		},
		{"not unpacked on request", "ADD --unpack=false file /dest", []byte("x"), "/dest 0644 0:0 \"x\"\n"},
		{"COPY does not unpack", "COPY file /dest/", gzipped(t, plain)[:3], "/dest/ 0755 0:0\n/dest/file 0644 0:0 \"\\x1f\\x8b\\b\"\n"},
		{"what looks compressed and is not", "ADD file /dest", []byte("\x1f\x8bno"), "/dest 0644 0:0 \"\\x1f\\x8bno\"\n"},
		{"compressed, but no archive", "ADD file /dest/", []byte("BZhno"), "/dest/ 0755 0:0\n/dest/file 0644 0:0 \"BZhno\"\n"},
		{"empty", "ADD file /dest", nil, "/dest 0644 0:0 \"\"\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemory()
			dir := dirOf("FROM debian:12\n"+c.add+"\n", map[string]string{"file": string(c.file)})
			res, err := Build(t.Context(), m, Options{Context: dir})
			if err != nil {
				t.Fatal(err)
			}
			if got := m.root(res.Image).minus(m.images["debian:12"].files); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAddDownloads(t *testing.T) {
	const content = "from far away"
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/dir/file.txt", "/":
			_, _ = w.Write([]byte(content))
		case "/x.tar.gz":
			_, _ = w.Write(gzipped(t, tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "in", Mode: 0o600})))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	sum := sha256.Sum256([]byte(content))
	good := "sha256:" + hex.EncodeToString(sum[:])
	for _, c := range []struct {
		name, add, want, fails string
		asked                  int // in a build, and the same build again
	}{
		{"a file", "ADD URL/dir/file.txt?x=1 /f", "/f 0600 0:0 \"from far away\"\n", "", 2},
		{"into a directory", "ADD --chown=5 --chmod=644 URL/dir/file.txt /d/", "/d/ 0644 5:5\n/d/file.txt 0644 5:5 \"from far away\"\n", "", 2},
		{"without a name", "ADD URL/ /d/", "/d/ 0755 0:0\n/d/__unnamed__ 0600 0:0 \"from far away\"\n", "", 2},
		{"with its checksum: not even asked for when it is there", "ADD --checksum=" + good + " URL/dir/file.txt /f", "/f 0600 0:0 \"from far away\"\n", "", 1},
		{"with another checksum", "ADD --checksum=sha256:" + strings.Repeat("0", 64) + " URL/dir/file.txt /f", "", good, 2},
		{"an archive is a file", "ADD --checksum=" + good + " URL/x.tar.gz /d/", "", "its checksum is", 2},
		{"an archive, unpacked on request", "ADD --unpack=true URL/x.tar.gz /d", "/d/ 0755 0:0\n/d/in 0600 0:0 \"content of in\"\n", "", 2},
		{"what is not there", "ADD URL/nix /f", "", "404 Not Found: without a network, put the file next to the Dockerfile", 2},
		{"a checksum for a file of ours", "ADD --checksum=" + good + " Dockerfile /f", "", "--checksum needs one address", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked = 0
			m := newMemory()
			dir := dirOf("FROM debian:12\n"+strings.ReplaceAll(c.add, "URL", server.URL)+"\n", nil)
			t.Setenv("TMPDIR", t.TempDir())
			for range 2 {
				res, err := Build(t.Context(), m, Options{Context: dir, HTTP: server.Client()})
				if c.fails != "" {
					if err == nil || !strings.Contains(err.Error(), c.fails) || !strings.HasPrefix(err.Error(), "Dockerfile:2: ADD") {
						t.Errorf("%q is not in %v", c.fails, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := m.root(res.Image).minus(m.images["debian:12"].files); got != c.want {
					t.Errorf("got\n%s\nwant\n%s", got, c.want)
				}
			}
			if asked != c.asked {
				t.Errorf("asked %d times, want %d", asked, c.asked)
			}
			if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestIsGit(t *testing.T) {
	for src, want := range map[string]bool{
		"git@github.com:o/r.git":               true,
		"git://host/r":                         true,
		"ssh://git@host/r":                     true,
		"https://github.com/o/r.git":           true,
		"https://github.com/o/r.git#v1:dir":    true,
		"https://github.com/o/r.git?ref=v1":    true,
		"https://github.com/o/r":               false,
		"https://example.com/a.git.tar.gz":     false,
		"r.git":                                false,
		"dir/a@b:c":                            false,
		"https://example.com/file.txt?x=a.git": false,
	} {
		if got := isGit(src); got != want {
			t.Errorf("%s: %t", src, got)
		}
	}
}

func TestChmod(t *testing.T) {
	for _, c := range []struct {
		change string
		mode   int64
		dir    bool
		want   int64
	}{
		{"", 0o4640, false, 0o4640},
		{"755", 0o4640, false, 0o755},
		{"0", 0o777, true, 0},
		{"7777", 0, false, 0o7777},
		{"u+x", 0o644, false, 0o744},
		{"+x", 0o644, false, 0o755},
		{"a=r", 0o777, false, 0o444},
		{"go-rwx", 0o777, false, 0o700},
		{"u=rwX,go=rX", 0o600, false, 0o644},
		{"u=rwX,go=rX", 0o600, true, 0o755},
		{"u=rwX,go=rX", 0o700, false, 0o755},
		{"u+s,g+s,o+t", 0o755, false, 0o7755},
		{"g=", 0o777, false, 0o707},
		{"u+r-w=x", 0o600, false, 0o100},
	} {
		change, err := parseMode(c.change)
		if err != nil {
			t.Errorf("%s: %v", c.change, err)
		}
		if got := change.to(c.mode, c.dir); got != c.want {
			t.Errorf("%s of %04o is %04o, want %04o", c.change, c.mode, got, c.want)
		}
	}
	for _, bad := range []string{"8", "77777", "-1", "x", "u", "u+", "z+x", "u+q", "g=u", "u+x,", ",", "0x1"} {
		if change, err := parseMode(bad); err == nil && bad != "u+" {
			t.Errorf("%s is taken for %+v", bad, change)
		}
	}
}

func TestFilesOfAnImageKeepTheirOwnersAndLinks(t *testing.T) {
	m := newMemory()
	m.images["tools"] = testImage{machine.Image{ID: "tools", Layers: []string{"tools"}}, files{
		"/":       {kind: tar.TypeDir, mode: 0o755},
		"/t":      {kind: tar.TypeDir, mode: 0o700, uid: 9, gid: 9},
		"/t/a":    {kind: tar.TypeReg, mode: 0o2755, uid: 7, gid: 8, content: "a"},
		"/t/l":    {kind: tar.TypeSymlink, link: "/t/a"},
		"/cur":    {kind: tar.TypeSymlink, link: "t"},
		"/pipe":   {kind: tar.TypeFifo, mode: 0o600},
		"/t/z":    {kind: tar.TypeDir, mode: 0o711, uid: 1, gid: 2},
		"/t/z/zz": {kind: tar.TypeReg, mode: 0o600},
	}}
	res, err := Build(t.Context(), m, Options{Context: dirOf("FROM debian:12\nCOPY --from=tools /cur /x\nCOPY --from=tools t/l pipe /y/\nCOPY --from=tools /t/?/zz /zz\nCOPY --from=tools --chown=agent --chmod=700 t/z /w\n", nil)})
	if err != nil {
		t.Fatal(err)
	}
	want := `/w/ 0700 1000:100
/w/zz 0700 1000:100 ""
/x/ 0755 0:0
/x/a 2755 7:8 "a"
/x/l -> /t/a
/x/z/ 0711 1:2
/x/z/zz 0600 0:0 ""
/y/ 0755 0:0
/y/l 2755 7:8 "a"
/y/pipe 0600 0:0 ""
/zz 0600 0:0 ""
`
	if got := m.root(res.Image).minus(m.images["debian:12"].files); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(m.froms) != 2 {
		t.Errorf("asked for %q", m.froms)
	}
}

func TestMountsLeaveWhatWasThere(t *testing.T) {
	m := newMemory()
	m.run = func(b *memoryRoot, _ machine.Command) (int, error) {
		for _, name := range []string{"/tmp/new", "/cache/x", "/made/by/mount/x", "/made/kept", "/etc/new/deep", "/etc/passwd"} {
			b.files[name] = node{kind: tar.TypeReg, content: "written"}
		}
		b.files["/etc/new"] = node{kind: tar.TypeDir, mode: 0o755}
		return 0, nil
	}
	res, err := Build(t.Context(), m, Options{Context: dirOf(
		"FROM debian:12\nRUN --mount=type=tmpfs,target=/tmp --mount=type=cache,target=/cache --mount=type=cache,target=/made/by/mount --mount=type=cache,target=/etc x\n", nil)})
	if err != nil {
		t.Fatal(err)
	}
	want := "/etc/passwd 0000 0:0 \"written\"\n/made/ 0755 0:0\n/made/kept 0000 0:0 \"written\"\n"
	if got := m.root(res.Image).minus(m.images["debian:12"].files); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSpecialFileFailsOnlyIfCopied(t *testing.T) {
	dir := dirOf("FROM debian:12\nCOPY a /a\n", map[string]string{"a": "a"})
	dir["p"] = &fstest.MapFile{Mode: os.ModeNamedPipe | 0o600}
	if _, err := Build(t.Context(), newMemory(), Options{Context: dir}); err != nil {
		t.Error(err)
	}
	dir["Dockerfile"].Data = []byte("FROM debian:12\nCOPY . /a\n")
	if _, err := Build(t.Context(), newMemory(), Options{Context: dir}); err == nil || !strings.Contains(err.Error(), "p: only files") {
		t.Error(err)
	}
}
