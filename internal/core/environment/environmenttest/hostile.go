package environmenttest

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
)

// hostileChecks copy out what a malicious agent may leave. In all cases, fetch checks that only
// plain files arrive, and only within the destination.
func hostileChecks() []check {
	return []check{
		{"links on their way out are left behind and listed", checkHostileLinks},
		{"hard links on their way out are no links any more", checkHostileHardLinks},
		{"pipes, devices and sockets are left behind and listed", checkHostileDevices},
		{"a source that is a link shows nothing of the host", checkHostileSource},
		{"names of every sort come out, or are listed", checkHostileNames},
		{"a tree of 300 levels does no harm", checkHostileDepth},
		{"more files than the limit stop at the limit", checkHostileMany},
		{"more than 50,000 files stop at the default limit", checkHostileManyDefault},
		{"a sparse file of 10 GiB stops at the limit", checkHostileSparse},
		{"many files together stop at the limit of bytes", checkHostileSum},
		{"a malicious tar program does no harm", checkHostileTar},
		{"lists of what was left behind are cut at 100", checkHostileLists},
	}
}

func checkHostileLinks(s *scene) {
	env := s.create()
	secret := filepath.Join(s.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret of the host"), 0o600); err != nil {
		s.Fatal(err)
	}
	env.runWith(`mkdir -p /logs/sub; cd /logs; echo fine > a; echo fine > z
		ln -s /etc/passwd passwd; ln -s ../../../../../../../../etc/passwd up; ln -s /etc dir; ln -s . loop
		ln -s "$SECRET" secret; ln -s "${SECRET%/*}" sub/host; ln -s /nowhere dangling; ln -s a inner`,
		environment.ExecOptions{Env: map[string]string{"SECRET": secret}})
	f := env.fetch("/logs", environment.ExtractOptions{}).ok(s)
	s.equal("plain files", f.text(s, "a")+f.text(s, "z"), "fine\nfine\n")
	s.equal("tree", f.tree(s), "a sub/ z")
	f.omits(s, "passwd", "up", "dir", "loop", "secret", "sub/host", "dangling", "inner")
}

// omits checks that each of these is listed with a reason.
func (f fetched) omits(s *scene, paths ...string) {
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

func checkHostileHardLinks(s *scene) {
	env := s.create()
	env.run(`mkdir -p /logs/d; cd /logs; echo content > d/first; ln d/first a; ln d/first z
		ln /etc/passwd passwd 2>/dev/null || true; echo fine > fine`)
	f := env.fetch("/logs", environment.ExtractOptions{}).ok(s)
	s.equal("a plain file", f.text(s, "fine"), "fine\n")
	found := 0
	for _, name := range []string{"a", "d/first", "z"} {
		data, err := os.ReadFile(filepath.Join(f.dst, name))
		switch {
		case err == nil:
			found++
			s.equal(name, string(data), "content\n")
		case !errors.Is(err, fs.ErrNotExist):
			s.Error(err)
		default:
			f.omits(s, name)
		}
	}
	if found == 0 {
		s.Error("no name of the file came out")
	}
}

func checkHostileDevices(s *scene) {
	env := s.create()
	made := env.run(`mkdir -p /logs; cd /logs; echo fine > a; echo fine > z; mkfifo pipe; echo pipe
		mknod null c 1 3 2>/dev/null && echo null; mknod zero c 1 5 2>/dev/null && echo zero; mknod disk b 8 0 2>/dev/null && echo disk; true`)
	f := env.fetch("/logs", environment.ExtractOptions{MaxBytes: 1 << 20}).ok(s)
	s.equal("tree", f.tree(s), "a z")
	f.omits(s, strings.Fields(made)...)
}

func checkHostileSource(s *scene) {
	env := s.create()
	host := s.TempDir()
	if err := os.WriteFile(filepath.Join(host, "secret"), []byte("secret of the host"), 0o600); err != nil {
		s.Fatal(err)
	}
	env.runWith(`mkdir -p /l "$HOST"; echo inside > "$HOST/inside"; cd /l
		ln -s "$HOST" dir; ln -s "$HOST/secret" file; ln -s ../../../../../../../../../../"$HOST" up; ln -s loop loop`,
		environment.ExecOptions{Env: map[string]string{"HOST": host}})
	// Links above src are followed inside the environment, and src itself is not.
	for _, src := range []string{
		"/l/dir", "/l/file", "/l/up", "/l/loop", "/l/dir/secret", "/l/up/secret", "/l/../../../../.." + host + "/secret",
	} {
		f := env.fetch(src, environment.ExtractOptions{})
		if _, err := os.Lstat(filepath.Join(f.dst, "secret")); err == nil {
			s.Errorf("%s brought a file of the host", src)
		}
	}
	for _, src := range []string{"/l/dir", "/l/file"} {
		f := env.fetch(src, environment.ExtractOptions{}).ok(s)
		if !f.Single || f.Files != 0 || len(f.Omitted) != 1 || !strings.HasPrefix(f.Omitted[0].Reason, "a symbolic link to ") {
			s.Errorf("%s: %+v, want the link to be omitted", src, f.Extracted)
		}
	}
}

func checkHostileNames(s *scene) {
	env := s.create()
	names := []string{"a:b", "new\nline", "cr\rhere", "..", "...", "..data", ".hidden", " space ", "-rf", "*", "?", `back\slash`, `"quoted"`,
		"<>|", "con", "esc\x1b[31m", "not\xffutf8", strings.Repeat("l", 255), "päth"}
	for i, name := range names {
		if name == ".." {
			continue
		}
		env.runWith(`mkdir -p /logs/d; printf %s "$CONTENT" > "/logs/d/$NAME"`, environment.ExecOptions{
			Env: map[string]string{"NAME": name, "CONTENT": names[i]}})
	}
	plain := env.fetch("/logs", environment.ExtractOptions{}).ok(s)
	if plain.Files-1 > len(names)-1 || plain.Files+len(plain.Omitted) < len(names)-1 {
		s.Errorf("%d files came out and %d are listed, want %d together", plain.Files, len(plain.Omitted), len(names)-1)
	}
	s.equal("content of a:b", plain.text(s, "d/a:b"), "a:b")
	// A SafeName that returns something impossible must not allow an escape either.
	for _, evil := range []string{"..", ".", "", "../up", "/etc/passwd", "a/b", "same"} {
		env.fetch("/logs", environment.ExtractOptions{SafeName: func(string) string { return evil }})
	}
}

func checkHostileDepth(s *scene) {
	env := s.create()
	env.run(`mkdir /logs2; cd /logs2; echo fine > a
		i=0; while [ $i -lt 300 ]; do i=$((i+1)); mkdir deep-folder-$i; cd deep-folder-$i; done; echo bottom > bottom`)
	f := env.fetch("/logs2", environment.ExtractOptions{})
	s.equal("a plain file", f.text(s, "a"), "fine\n")
	if f.err == nil && len(f.Omitted) == 0 && !strings.HasSuffix(f.tree(s), "/bottom") {
		s.Error("the bottom is missing, and nothing says so")
	}
}

func checkHostileMany(s *scene) {
	env := s.create()
	env.run("mkdir -p /logs/d; cd /logs/d; seq 1 1200 | xargs touch")
	stopsAt(s, env.fetch("/logs", environment.ExtractOptions{MaxFiles: 1000}), 1000, 0)
	f := env.fetch("/logs", environment.ExtractOptions{MaxFiles: 1300}).ok(s)
	s.equal("the last", f.text(s, "d/1200"), "")
}

func checkHostileManyDefault(s *scene) {
	if s.opts.Less {
		s.Skip("makes 55,000 files, which the suite does with Options.Less unset")
	}
	env := s.create()
	env.run("mkdir -p /logs; cd /logs; for d in $(seq 1 11); do mkdir d$d; (cd d$d; seq 1 5000 | xargs touch); done")
	stopsAt(s, env.fetch("/logs", environment.ExtractOptions{}), 50_000, 0)
}

func checkHostileSparse(s *scene) {
	env := s.create()
	env.run("mkdir -p /logs; cd /logs; echo fine > a; truncate -s 10G huge")
	stopsAt(s, env.fetch("/logs", environment.ExtractOptions{MaxBytes: 16 << 20}), 10, 16<<20)
	stopsAt(s, env.fetch("/logs/huge", environment.ExtractOptions{MaxBytes: 16 << 20}), 10, 16<<20)
}

func checkHostileSum(s *scene) {
	env := s.create()
	env.run("mkdir -p /logs; cd /logs; for i in $(seq 1 40); do head -c 100000 /dev/zero > f$i; done")
	stopsAt(s, env.fetch("/logs", environment.ExtractOptions{MaxBytes: 2_000_000}), 40, 2_000_000)
	env.fetch("/logs", environment.ExtractOptions{MaxBytes: 4_000_000}).ok(s)
}

// stopsAt checks that a copy stopped at a limit with the right error.
func stopsAt(s *scene, f fetched, maxFiles int, maxBytes int64) {
	s.Helper()
	if !errors.Is(f.err, environment.ErrTooLarge) {
		s.Errorf("error %v, want %v", f.err, environment.ErrTooLarge)
	}
	if f.Files > maxFiles || f.Bytes > maxBytes {
		s.Errorf("%d files with %d bytes came out, want at most %d with %d", f.Files, f.Bytes, maxFiles, maxBytes)
	}
	var size int64
	var count int
	err := filepath.WalkDir(f.dst, func(_ string, d fs.DirEntry, err error) error {
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
func checkHostileTar(s *scene) {
	env := s.create()
	host := filepath.Join(s.TempDir(), "escaped")
	env.copyTo(environment.Copy{Src: files(map[string]string{"evil.tar": evilArchive(s, host)}), Dst: "/evil"})
	env.run(`mkdir -p /logs; echo fine > /logs/a
		for p in /bin/tar /usr/bin/tar /usr/local/bin/tar; do
			mkdir -p ${p%/*}; rm -f $p; printf '#!/bin/bash\ncat /evil/evil.tar\n' > $p; chmod 755 $p; done`)
	f := env.fetch("/logs", environment.ExtractOptions{MaxBytes: 1 << 20})
	if f.err == nil && len(f.Omitted) == 0 {
		s.equal("tree", f.tree(s), "a")
	}
	for _, path := range []string{host, filepath.Join(filepath.Dir(f.dst), "up"), "/rollout-escaped"} {
		if _, err := os.Lstat(path); err == nil {
			s.Errorf("%s was made outside the destination", path)
		}
	}
}

// evilArchive returns an archive whose entries aim at host, above the destination, and at the
// targets of links.
func evilArchive(s *scene, host string) string {
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

func checkHostileLists(s *scene) {
	env := s.create()
	env.run(`mkdir -p /logs; cd /logs; for i in $(seq 1 150); do ln -s /etc/passwd l$i; echo $i > f:$i; done`)
	f := env.fetch("/logs", environment.ExtractOptions{
		SafeName: func(name string) string { return strings.ReplaceAll(name, ":", "_") },
	}).ok(s)
	if len(f.Omitted) != 100 || len(f.Renamed) != 100 {
		s.Errorf("%d omitted, %d renamed are listed, want 100 each", len(f.Omitted), len(f.Renamed))
	}
	if f.Files != 150 {
		s.Errorf("%d files came out, want 150", f.Files)
	}
}
