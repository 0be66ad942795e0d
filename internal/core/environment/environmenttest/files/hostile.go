package files

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// hostileChecks copy out what a malicious agent may leave. In all cases, fetch checks that only
// plain files arrive, and only within the destination.
func hostileChecks() []suite.Check {
	return []suite.Check{
		{Name: "links on their way out are left behind and listed", Run: checkHostileLinks},
		{Name: "hard links on their way out are no links any more", Run: checkHostileHardLinks},
		{Name: "pipes, devices and sockets are left behind and listed", Run: checkHostileDevices},
		{Name: "a source that is a link shows nothing of the host", Run: checkHostileSource},
		{Name: "names of every sort come out, or are listed", Run: checkHostileNames},
		{Name: "a tree of 300 levels does no harm", Run: checkHostileDepth},
		{Name: "more files than the limit stop at the limit", Run: checkHostileMany},
		{Name: "more than 50,000 files stop at the default limit", Run: checkHostileManyDefault},
		{Name: "a sparse file of 10 GiB stops at the limit", Run: checkHostileSparse},
		{Name: "many files together stop at the limit of bytes", Run: checkHostileSum},
		{Name: "a malicious tar program does no harm", Run: checkHostileTar},
		{Name: "lists of omitted entries are cut at 100", Run: checkHostileLists},
	}
}

func checkHostileLinks(s *suite.Scene) {
	env := s.Create()
	secret := filepath.Join(s.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret of the host"), 0o600); err != nil {
		s.Fatal(err)
	}
	env.RunWith(`mkdir -p /logs/sub; cd /logs; echo fine > a; echo fine > z
		ln -s /etc/passwd passwd; ln -s ../../../../../../../../etc/passwd up; ln -s /etc dir; ln -s . loop
		ln -s "$SECRET" secret; ln -s "${SECRET%/*}" sub/host; ln -s /nowhere dangling; ln -s a inner`,
		environment.ExecOptions{Env: map[string]string{"SECRET": secret}})
	f := env.Fetch("/logs", environment.ExtractOptions{}).OK(s)
	s.Equal("plain files", f.Text(s, "a")+f.Text(s, "z"), "fine\nfine\n")
	s.Equal("tree", f.Tree(s), "a sub/ z")
	omits(f, s, "passwd", "up", "dir", "loop", "secret", "sub/host", "dangling", "inner")
}

// omits checks that each of these is listed with a reason.
func omits(f suite.Fetched, s *suite.Scene, paths ...string) {
	s.Helper()
	reasons := map[string]string{}
	for _, o := range f.Omitted {
		reasons[strings.TrimPrefix(o.Path, "./")] = o.Reason
	}
	for _, p := range paths {
		if reasons[p] == "" {
			s.Errorf("Omitted does not list %s with a reason: %+v", p, f.Omitted)
		}
	}
}

func checkHostileHardLinks(s *suite.Scene) {
	env := s.Create()
	env.Run(`mkdir -p /logs/d; cd /logs; echo content > d/first; ln d/first a; ln d/first z
		ln /etc/passwd passwd 2>/dev/null || true; echo fine > fine`)
	f := env.Fetch("/logs", environment.ExtractOptions{}).OK(s)
	s.Equal("a plain file", f.Text(s, "fine"), "fine\n")
	found := 0
	for _, name := range []string{"a", "d/first", "z"} {
		data, err := os.ReadFile(filepath.Join(f.Dst, name))
		switch {
		case err == nil:
			found++
			s.Equal(name, string(data), "content\n")
		case !errors.Is(err, fs.ErrNotExist):
			s.Error(err)
		default:
			omits(f, s, name)
		}
	}
	if found == 0 {
		s.Error("no name of the file came out")
	}
}

func checkHostileDevices(s *suite.Scene) {
	env := s.Create()
	made := env.Run(`mkdir -p /logs; cd /logs; echo fine > a; echo fine > z; mkfifo pipe; echo pipe
		mknod null c 1 3 2>/dev/null && echo null; mknod zero c 1 5 2>/dev/null && echo zero; mknod disk b 8 0 2>/dev/null && echo disk; true`)
	f := env.Fetch("/logs", environment.ExtractOptions{MaxBytes: 1 << 20}).OK(s)
	s.Equal("tree", f.Tree(s), "a z")
	omits(f, s, strings.Fields(made)...)
}

func checkHostileSource(s *suite.Scene) {
	env := s.Create()
	host := s.TempDir()
	if err := os.WriteFile(filepath.Join(host, "secret"), []byte("secret of the host"), 0o600); err != nil {
		s.Fatal(err)
	}
	env.RunWith(`mkdir -p /l "$HOST"; echo inside > "$HOST/inside"; cd /l
		ln -s "$HOST" dir; ln -s "$HOST/secret" file; ln -s ../../../../../../../../../../"$HOST" up; ln -s loop loop`,
		environment.ExecOptions{Env: map[string]string{"HOST": host}})
	// Links above src are followed inside the environment, and src itself is not.
	for _, src := range []string{
		"/l/dir", "/l/file", "/l/up", "/l/loop", "/l/dir/secret", "/l/up/secret", "/l/../../../../.." + host + "/secret",
	} {
		f := env.Fetch(src, environment.ExtractOptions{})
		if _, err := os.Lstat(filepath.Join(f.Dst, "secret")); err == nil {
			s.Errorf("%s brought a file of the host", src)
		}
	}
	for _, src := range []string{"/l/dir", "/l/file"} {
		f := env.Fetch(src, environment.ExtractOptions{}).OK(s)
		if !f.Single || f.Files != 0 || len(f.Omitted) != 1 || !strings.HasPrefix(f.Omitted[0].Reason, "a symbolic link to ") {
			s.Errorf("%s: %+v, want the link to be omitted", src, f.Extracted)
		}
	}
}

func checkHostileNames(s *suite.Scene) {
	env := s.Create()
	names := []string{"a:b", "new\nline", "cr\rhere", "..", "...", "..data", ".hidden", " space ", "-rf", "*", "?", `back\slash`, `"quoted"`,
		"<>|", "con", "esc\x1b[31m", "not\xffutf8", strings.Repeat("l", 255), "päth"}
	for i, name := range names {
		if name == ".." {
			continue
		}
		env.RunWith(`mkdir -p /logs/d; printf %s "$CONTENT" > "/logs/d/$NAME"`, environment.ExecOptions{
			Env: map[string]string{"NAME": name, "CONTENT": names[i]}})
	}
	plain := env.Fetch("/logs", environment.ExtractOptions{}).OK(s)
	if plain.Files-1 > len(names)-1 || plain.Files+len(plain.Omitted) < len(names)-1 {
		s.Errorf("%d files came out and %d are listed, want %d together", plain.Files, len(plain.Omitted), len(names)-1)
	}
	s.Equal("content of a:b", plain.Text(s, "d/a:b"), "a:b")
	// A SafeName that returns something impossible must not allow an escape either.
	for _, evil := range []string{"..", ".", "", "../up", "/etc/passwd", "a/b", "same"} {
		env.Fetch("/logs", environment.ExtractOptions{SafeName: func(string) string { return evil }})
	}
}

func checkHostileDepth(s *suite.Scene) {
	env := s.Create()
	env.Run(`mkdir /logs2; cd /logs2; echo fine > a
		i=0; while [ $i -lt 300 ]; do i=$((i+1)); mkdir deep-folder-$i; cd deep-folder-$i; done; echo bottom > bottom`)
	f := env.Fetch("/logs2", environment.ExtractOptions{})
	s.Equal("a plain file", f.Text(s, "a"), "fine\n")
	if f.Err == nil && len(f.Omitted) == 0 && !strings.HasSuffix(f.Tree(s), "/bottom") {
		s.Error("the bottom is missing, and nothing says so")
	}
}

func checkHostileMany(s *suite.Scene) {
	env := s.Create()
	env.Run("mkdir -p /logs/d; cd /logs/d; seq 1 1200 | xargs touch")
	stopsAt(s, env.Fetch("/logs", environment.ExtractOptions{MaxFiles: 1000}), 1000, 0)
	f := env.Fetch("/logs", environment.ExtractOptions{MaxFiles: 1300}).OK(s)
	s.Equal("the last", f.Text(s, "d/1200"), "")
}

func checkHostileManyDefault(s *suite.Scene) {
	if s.Opts.Less {
		s.Skip("makes 55,000 files, which the suite does with Options.Less unset")
	}
	env := s.Create()
	env.Run("mkdir -p /logs; cd /logs; for d in $(seq 1 11); do mkdir d$d; (cd d$d; seq 1 5000 | xargs touch); done")
	stopsAt(s, env.Fetch("/logs", environment.ExtractOptions{}), 50_000, 0)
}

func checkHostileSparse(s *suite.Scene) {
	env := s.Create()
	env.Run("mkdir -p /logs; cd /logs; echo fine > a; truncate -s 10G huge")
	stopsAt(s, env.Fetch("/logs", environment.ExtractOptions{MaxBytes: 16 << 20}), 10, 16<<20)
	stopsAt(s, env.Fetch("/logs/huge", environment.ExtractOptions{MaxBytes: 16 << 20}), 10, 16<<20)
}

func checkHostileSum(s *suite.Scene) {
	env := s.Create()
	env.Run("mkdir -p /logs; cd /logs; for i in $(seq 1 40); do head -c 100000 /dev/zero > f$i; done")
	stopsAt(s, env.Fetch("/logs", environment.ExtractOptions{MaxBytes: 2_000_000}), 40, 2_000_000)
	env.Fetch("/logs", environment.ExtractOptions{MaxBytes: 4_000_000}).OK(s)
}

// stopsAt checks that a copy stopped at a limit with the right error.
func stopsAt(s *suite.Scene, f suite.Fetched, maxFiles int, maxBytes int64) {
	s.Helper()
	if !errors.Is(f.Err, environment.ErrTooLarge) {
		s.Errorf("error %v, want %v", f.Err, environment.ErrTooLarge)
	}
	if f.Files > maxFiles || f.Bytes > maxBytes {
		s.Errorf("%d files with %d bytes came out, want at most %d with %d", f.Files, f.Bytes, maxFiles, maxBytes)
	}
	var size int64
	var count int
	err := filepath.WalkDir(f.Dst, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		count++
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return err
	})
	if err != nil || count-1 > maxFiles || size > maxBytes {
		s.Errorf("on disk: %d files and directories with %d bytes (%v), want at most %d with %d", count-1, size, err, maxFiles, maxBytes)
	}
}

// checkHostileTar replaces the environment's tar with one that writes an archive of attacks.
func checkHostileTar(s *suite.Scene) {
	env := s.Create()
	host := filepath.Join(s.TempDir(), "escaped")
	env.Put(environment.Copy{Src: suite.Files(map[string]string{"evil.tar": evilArchive(s, host)}), Dst: "/evil"})
	env.Run(`mkdir -p /logs; echo fine > /logs/a
		for p in /bin/tar /usr/bin/tar /usr/local/bin/tar; do
			mkdir -p ${p%/*}; rm -f $p; printf '#!/bin/bash\ncat /evil/evil.tar\n' > $p; chmod 755 $p; done`)
	f := env.Fetch("/logs", environment.ExtractOptions{MaxBytes: 1 << 20})
	if f.Err == nil && len(f.Omitted) == 0 {
		s.Equal("tree", f.Tree(s), "a")
	}
	for _, path := range []string{host, filepath.Join(filepath.Dir(f.Dst), "up"), "/rollout-escaped"} {
		if _, err := os.Lstat(path); err == nil {
			s.Errorf("%s was made outside the destination", path)
		}
	}
}

// evilArchive returns an archive whose entries aim at host, above the destination, and at the
// targets of links.
func evilArchive(s *suite.Scene, host string) string {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	add := func(h tar.Header, data string) {
		h.Size, h.Mode, h.Format = int64(len(data)), 0o777, tar.FormatGNU
		if err := w.WriteHeader(&h); err != nil {
			s.Fatal(err)
		}
		if _, err := io.WriteString(w, data); err != nil {
			s.Fatal(err)
		}
	}
	for _, name := range []string{host, "../up", "logs/../../up", "./../up", "/rollout-escaped", "../../../../../../../../rollout-escaped"} {
		add(tar.Header{Typeflag: tar.TypeReg, Name: name}, "escaped")
	}
	for _, target := range []string{filepath.Dir(host), "..", "/"} {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: "logs/link", Linkname: target}, "")
		add(tar.Header{Typeflag: tar.TypeReg, Name: "logs/link/" + filepath.Base(host)}, "escaped")
		add(tar.Header{Typeflag: tar.TypeReg, Name: "logs/link/up"}, "escaped")
		add(tar.Header{Typeflag: tar.TypeReg, Name: "logs/link"}, "escaped")
	}
	for _, target := range []string{"../canary", filepath.Join(host, "../canary"), "/etc/passwd"} {
		add(tar.Header{Typeflag: tar.TypeLink, Name: "logs/hard", Linkname: target}, "")
		add(tar.Header{Typeflag: tar.TypeReg, Name: "logs/hard"}, "escaped")
	}
	if err := w.Close(); err != nil {
		s.Fatal(err)
	}
	return buf.String()
}

func checkHostileLists(s *suite.Scene) {
	env := s.Create()
	env.Run(`mkdir -p /logs; cd /logs; for i in $(seq 1 150); do ln -s /etc/passwd l$i; echo $i > f:$i; done`)
	f := env.Fetch("/logs", environment.ExtractOptions{
		SafeName: func(name string) string { return strings.ReplaceAll(name, ":", "_") },
	}).OK(s)
	if len(f.Omitted) != 100 || len(f.Renamed) != 100 {
		s.Errorf("%d omitted, %d renamed are listed, want 100 each", len(f.Omitted), len(f.Renamed))
	}
	if f.Files != 150 {
		s.Errorf("%d files came out, want 150", f.Files)
	}
}
