package environmenttest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
)

// copyToChecks check files that are copied in.
func copyToChecks() []check {
	return []check{
		{"files arrive with their modes and belong to root", checkCopyModes},
		{"files arrive with the owners, modes, times and names that they had", checkCopyEntries},
		{"names arrive whatever they contain", checkCopyNames},
		{"a file of 64 MiB arrives whole", checkCopyBig},
		{"2,000 files arrive", checkCopyMany},
		{"empty directories arrive", checkCopyEmptyDirs},
		{"a copy adds to what is there", checkCopyAdds},
		{"copies are made in order", checkCopyOrder},
		{"the mode of the destination is as asked for", checkCopyDstMode},
		{"a clean copy removes what was there", checkCleanCopy},
		{"a clean copy removes a planted link and spares its target", checkCleanLink},
		{"a destination below a link is inside the environment", checkCopyBelowLink},
		{"a copy is not made by programs of the environment", checkCopyPlantedTar},
		{"links and devices in a source are refused", checkCopyRefused},
		{"links are made where a copy has them, and lead nowhere else", checkCopyLinks},
		{"a copy of nothing is fine", checkCopyNothing},
		{"files are there before the first command", checkCreateFiles},
		{"files that cannot be copied fail the creation", checkCreateBadFiles},
		{"a user who is not root can read what was copied", checkCopyNonRoot},
	}
}

func checkCopyModes(s *scene) {
	env := s.create()
	tree := fstest.MapFS{
		"run.sh":    {Data: []byte("#!/bin/bash\necho ran\n"), Mode: 0o755},
		"secret":    {Data: []byte("s"), Mode: 0o600},
		"read-only": {Data: []byte("r"), Mode: 0o444},
		"d":         {Mode: fs.ModeDir | 0o700},
		"d/open":    {Data: []byte("o"), Mode: 0o666},
		"d/wide":    {Mode: fs.ModeDir | 0o777},
		"d/wide/in": {Data: nil, Mode: 0o640},
	}
	env.copyTo(environment.Copy{Src: tree, Dst: "/in/put"})
	s.equal("modes", env.run("cd /in/put; stat -c '%n %a %u:%g' . run.sh secret read-only d d/open d/wide d/wide/in"),
		`. 755 0:0
run.sh 755 0:0
secret 600 0:0
read-only 444 0:0
d 700 0:0
d/open 666 0:0
d/wide 777 0:0
d/wide/in 640 0:0
`)
	s.equal("parents", env.run("stat -c '%a %u:%g' /in"), "755 0:0\n")
	s.equal("run.sh", env.run("/in/put/run.sh"), "ran\n")
}

// checkCopyEntries copies files out, where they get plain names and modes, and into another
// environment.
func checkCopyEntries(s *scene) {
	const make = `mkdir -p /made/.git /made/shared /made/sticky '/made/a:b'; cd /made; echo main >.git/HEAD; echo x >'a:b/c?d'; echo one >Same; echo two >same
		echo p >private; chmod 640 private; chown 1234:5678 private; chmod 2770 shared; chmod 1733 sticky; echo s >setuid; chmod 6755 setuid; mkdir -m 700 closed; chown 7 closed
		echo deep >closed/f; ln -s private link; chown -h 7:8 link; touch -d @1000000000 private; chmod 711 .; chown 5:6 .`
	const look = `cd /made; stat -c '%n %a %u:%g' . .git .git/HEAD shared sticky a:b 'a:b/c?d' Same same private closed closed/f link; stat -c %Y private; cat .git/HEAD 'a:b/c?d' Same same private closed/f`
	from := s.create()
	from.run(make)
	safe := func(name string) string { return strings.NewReplacer(":", "_", "?", "_", ".", "_").Replace(name) }
	f := from.fetch("/made", environment.ExtractOptions{SafeName: safe}).ok(s)
	if f.Incomplete {
		s.Errorf("it is called incomplete: %+v", f.Omitted)
	}
	to := s.create()
	copies := environment.Copy{Src: os.DirFS(f.dst), Dst: "/made", Clean: true, Links: f.Links, Entries: f.Entries}
	to.run("mkdir -p /made/old; ln -s /etc /made/.git")
	to.copyTo(copies)
	s.equal("files", to.run(look), from.run(look))
	s.equal("a setuid file", to.run("stat -c %a /made/setuid; ls /made | grep -c old || true"), "755\n0\n")

	one := from.fetch("/made/private", environment.ExtractOptions{SafeName: safe}).ok(s)
	if len(one.Entries) != 1 || one.Entries[0].Path != "." || one.Entries[0].Mode != 0o640 || one.Entries[0].UID != 1234 {
		s.Errorf("entries of a file: %+v", one.Entries)
	}
	copies.Entries = append(slices.Clone(f.Entries), environment.Entry{Path: "none"})
	s.wantKind("an entry without a file", to.CopyTo(s.ctx, copies), environment.KindCopy)
	copies.Entries = append(slices.Clone(f.Entries), environment.Entry{Path: "../../etc/none", Dir: true})
	s.wantKind("an entry that leads out", to.CopyTo(s.ctx, copies), environment.KindCopy)
}

func checkCopyNames(s *scene) {
	env := s.create()
	content := map[string]string{}
	for _, name := range []string{
		"plain", "with space", " leading and trailing ", "-rf", "--help", "käse-漢字-🚀", "new\nline", "tab\there", `back\slash`,
		`"quotes'`, "$HOME", "*", ".hidden", "..double", "a:b", strings.Repeat("x", 255), "deep/" + strings.Repeat("d/", 40) + "end",
	} {
		content[name] = "content of " + name
	}
	env.copyTo(environment.Copy{Src: files(content), Dst: "/in"})
	for name, want := range content {
		s.equal(fmt.Sprintf("%.40q", name), env.runWith(`cat "/in/$NAME"`,
			environment.ExecOptions{Env: map[string]string{"NAME": name}}), want)
	}
}

func checkCopyBig(s *scene) {
	env := s.create()
	data := make([]byte, 64<<20)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(data)
	sum := sha256.Sum256(data)
	env.copyTo(environment.Copy{Src: fstest.MapFS{"big": {Data: data, Mode: 0o644}}, Dst: "/in"})
	s.equal("checksum", env.run("sha256sum < /in/big"), hex.EncodeToString(sum[:])+"  -\n")
}

func checkCopyMany(s *scene) {
	env := s.create()
	content, sum := map[string]string{}, sha256.New()
	for i := range 2000 {
		name, data := fmt.Sprintf("d%02d/f%04d", i/50, i), fmt.Sprintf("file number %d\n", i)
		content[name] = data
		sum.Write([]byte(data))
	}
	env.copyTo(environment.Copy{Src: files(content), Dst: "/in"})
	s.equal("number", env.run("find /in -type f | wc -l"), "2000\n")
	s.equal("checksum of all", env.run("cat /in/*/* | sha256sum"), hex.EncodeToString(sum.Sum(nil))+"  -\n")
}

func checkCopyEmptyDirs(s *scene) {
	env := s.create()
	env.copyTo(environment.Copy{Dst: "/in", Src: fstest.MapFS{
		"empty":       {Mode: fs.ModeDir | 0o755},
		"a/b/c/empty": {Mode: fs.ModeDir | 0o750},
	}})
	s.equal("directories", env.run("find /in -type d | sort"), "/in\n/in/a\n/in/a/b\n/in/a/b/c\n/in/a/b/c/empty\n/in/empty\n")
	s.equal("mode", env.run("stat -c %a /in/a/b/c/empty"), "750\n")
}

func checkCopyAdds(s *scene) {
	env := s.create()
	env.run("mkdir -p /in/d; echo old > /in/old; echo old > /in/both; echo old > /in/d/old")
	env.copyTo(environment.Copy{Src: files(map[string]string{"both": "new\n", "d/new": "new\n"}), Dst: "/in"})
	s.equal("afterwards", env.run("cd /in; for f in both d/new d/old old; do echo $f $(cat $f); done"),
		"both new\nd/new new\nd/old old\nold old\n")
}

func checkCopyOrder(s *scene) {
	env := s.create()
	env.copyTo(
		environment.Copy{Src: files(map[string]string{"a": "first", "b": "first"}), Dst: "/in"},
		environment.Copy{Src: files(map[string]string{"b": "second", "c": "second"}), Dst: "/in"},
		environment.Copy{Src: files(map[string]string{"x": "third"}), Dst: "/other"},
		environment.Copy{Src: files(map[string]string{"c": "fourth"}), Dst: "/in", Clean: true},
	)
	s.equal("afterwards", env.run("cd /in; echo *; cat c /other/x"), "c\nfourththird")
}

func checkCopyDstMode(s *scene) {
	env := s.create()
	env.run("mkdir -m 750 /there /there2")
	one := files(map[string]string{"f": "x"})
	env.copyTo(
		environment.Copy{Src: one, Dst: "/new"},
		environment.Copy{Src: one, Dst: "/open/logs", Mode: 0o777},
		environment.Copy{Src: one, Dst: "/there"},
		environment.Copy{Src: one, Dst: "/there2", Mode: 0o777},
		environment.Copy{Src: fstest.MapFS{}, Dst: "/empty", Mode: 0o777},
		environment.Copy{Src: fstest.MapFS{}, Dst: "/sticky", Mode: fs.ModeSticky | 0o733, Clean: true},
	)
	s.equal("modes", env.run("stat -c '%n %a' /new /open /open/logs /there /there2 /empty /sticky"),
		"/new 755\n/open 755\n/open/logs 777\n/there 750\n/there2 777\n/empty 777\n/sticky 1733\n")
	env.runWith("touch /open/logs/mine /empty/mine", environment.ExecOptions{User: "nobody"})
}

func checkCleanCopy(s *scene) {
	env := s.create()
	for _, planted := range []struct{ name, script string }{
		{"nothing", "true"},
		{"a directory", "mkdir -p /tests/d/e; echo planted > /tests/d/e/f; echo planted > /tests/test.sh; chmod 000 /tests/d"},
		{"a file", "echo planted > /tests"},
		{"a dangling link", "ln -s /nowhere /tests"},
		{"a link to itself", "ln -s /tests /tests"},
		{"a link to a file", "echo spared > /spared; ln -s /spared /tests"},
		{"a fifo", "mkfifo /tests"},
	} {
		env.run("rm -rf /tests; " + planted.script)
		env.copyTo(environment.Copy{Src: files(map[string]string{"test.sh": "true\n"}), Dst: "/tests", Clean: true})
		s.equal("after "+planted.name, env.run("find /tests | sort; stat -c %F /tests; cat /tests/test.sh"),
			"/tests\n/tests/test.sh\ndirectory\ntrue\n")
	}
	s.equal("the link's target", env.run("cat /spared; test ! -e /nowhere"), "spared\n")
}

// checkCleanLink plants a link, as an agent would to redirect the tests.
func checkCleanLink(s *scene) {
	env := s.create()
	const picture = "find /etc | sort | sha256sum; cat /etc/passwd | sha256sum; stat -c '%a %u:%g' /etc"
	env.run("rm -rf /tests; ln -s /etc /tests; mkdir /d; echo spared > /d/f; ln -s /d /linked")
	before := env.run(picture)
	tests := files(map[string]string{"passwd": "overwritten", "test.sh": "true\n", "sub/x": "x"})
	env.copyTo(
		environment.Copy{Src: tests, Dst: "/tests", Clean: true, Mode: 0o700},
		environment.Copy{Src: tests, Dst: "/linked", Clean: true},
	)
	s.equal("/etc", env.run(picture), before)
	s.equal("/d", env.run("find /d | sort; cat /d/f"), "/d\n/d/f\nspared\n")
	s.equal("/tests", env.run("stat -c '%F %a' /tests /linked; cat /tests/passwd"), "directory 700\ndirectory 755\noverwritten")
}

// checkCopyLinks copies links. Those that are in the way of files are refused: nothing is written
// through them.
func checkCopyLinks(s *scene) {
	env := s.create()
	before := env.run("cat /etc/passwd")
	at := func(name string, kind environment.LinkKind, target string) environment.Link {
		return environment.Link{Path: name, Kind: kind, Target: target}
	}
	src := fstest.MapFS{"d/f": {Data: []byte("fig\n"), Mode: 0o644}, "run": {Data: []byte("x\n"), Mode: 0o755}}
	env.copyTo(environment.Copy{Src: src, Dst: "/app", Clean: true, Links: []environment.Link{
		at("out", environment.SymbolicLink, "/etc"), at("d/dangling", environment.SymbolicLink, "../../../../../nowhere"), at("self", environment.SymbolicLink, "self"),
		at("d/one", environment.SymbolicLink, "../d/f"), at("two", environment.SymbolicLink, "d/one"), at("new/hard", environment.HardLink, "run"),
	}})
	s.equal("links", env.run("cd /app; for l in out d/dangling self d/one two; do test -L $l && echo $l; done; test -e d/dangling || cat two new/hard; test -x new/hard && test -x run && ! test -L new/hard && echo runs"),
		"out\nd/dangling\nself\nd/one\ntwo\nfig\nx\nruns\n")
	s.equal("what a link leads to", env.run("cat /app/out/passwd"), before)
	for name, c := range map[string]environment.Copy{
		"a file below a link":     {Src: files(map[string]string{"a/passwd": "planted"}), Dst: "/bad", Links: []environment.Link{at("a", environment.SymbolicLink, "/etc")}},
		"a link below a link":     {Src: fstest.MapFS{}, Dst: "/bad", Links: []environment.Link{at("a", environment.SymbolicLink, "/etc"), at("a/passwd", environment.SymbolicLink, "/bad")}},
		"a path that leads out":   {Src: fstest.MapFS{}, Dst: "/bad/in", Links: []environment.Link{at("../../etc/passwd", environment.SymbolicLink, "/bad")}},
		"a target that leads out": {Src: fstest.MapFS{}, Dst: "/bad/in", Links: []environment.Link{at("a", environment.HardLink, "../../etc/passwd")}},
	} {
		s.wantKind(name, env.CopyTo(s.ctx, c), environment.KindCopy)
	}
	s.equal("/etc/passwd", env.run("! test -L /etc/passwd && cat /etc/passwd"), before)
}

// checkCopyBelowLink uses links that would leave the environment if they were resolved outside of
// it.
func checkCopyBelowLink(s *scene) {
	env := s.create()
	outside := filepath.Join(s.TempDir(), "outside")
	env.runWith(`mkdir -p /d "$OUTSIDE"; ln -s /d /abs; ln -s ../../../../../../../../../../../d /rel; ln -s "$OUTSIDE" /host`,
		environment.ExecOptions{Env: map[string]string{"OUTSIDE": outside}})
	for _, dst := range []string{"/abs/one", "/rel/two", "/host/three"} {
		env.copyTo(environment.Copy{Src: files(map[string]string{"f": "to " + dst}), Dst: dst})
	}
	s.equal("inside", env.runWith(`cat /d/one/f /d/two/f "$OUTSIDE/three/f"`,
		environment.ExecOptions{Env: map[string]string{"OUTSIDE": outside}}), "to /abs/oneto /rel/twoto /host/three")
	if _, err := os.Lstat(outside); err == nil {
		s.Errorf("%s was made outside the environment", outside)
	}
	if _, err := os.Lstat("/d/one"); err == nil {
		s.Error("/d/one was made outside the environment")
	}
}

func checkCopyPlantedTar(s *scene) {
	env := s.create()
	env.run(`for p in /bin/tar /usr/bin/tar /usr/local/bin/tar; do
		mkdir -p ${p%/*}; rm -f $p; printf '#!/bin/bash\ncat >/dev/null; touch /tmp/used\n' > $p; chmod 755 $p; done`)
	env.copyTo(environment.Copy{Src: files(map[string]string{"f": "real"}), Dst: "/in", Clean: true, Mode: 0o755})
	s.equal("copied", env.run("cat /in/f; test -e /tmp/used && echo the planted tar was used || true"), "real")
}

func checkCopyRefused(s *scene) {
	env := s.create()
	dir := s.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		s.Fatal(err)
	}
	for name, src := range map[string]fs.FS{
		"a link in a directory of the host": os.DirFS(dir),
		"a link":                            fstest.MapFS{"l": {Data: []byte("/etc/passwd"), Mode: fs.ModeSymlink | 0o777}},
		"a link to a directory":             fstest.MapFS{"d/l": {Data: []byte(".."), Mode: fs.ModeSymlink | 0o777}},
		"a device":                          fstest.MapFS{"null": {Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666}},
		"a named pipe":                      fstest.MapFS{"p": {Mode: fs.ModeNamedPipe | 0o666}},
		"a socket":                          fstest.MapFS{"s": {Mode: fs.ModeSocket | 0o666}},
	} {
		s.wantKind(name, env.CopyTo(s.ctx, environment.Copy{Src: src, Dst: "/refused"}), environment.KindCopy)
	}
	s.equal("the next command", env.run("find /refused -type l -o -type p; echo fine"), "fine\n")
}

func checkCopyNothing(s *scene) {
	env := s.create()
	env.copyTo()
	env.copyTo(environment.Copy{Src: fstest.MapFS{}, Dst: "/in/empty"})
	s.equal("directory", env.run("find /in | sort"), "/in\n/in/empty\n")
}

func checkCreateFiles(s *scene) {
	env := s.create(func(o *environment.CreateOptions) {
		o.Files = []environment.Copy{
			{Src: files(map[string]string{"instruction.md": "do it"}), Dst: "/task"},
			{Src: fstest.MapFS{}, Dst: "/logs/agent", Mode: 0o777},
			{Src: files(map[string]string{"hosts.new": "x"}), Dst: "/etc", Mode: 0},
			{Src: files(map[string]string{"only": "this"}), Dst: "/opt", Clean: true},
		}
	})
	s.equal("files", env.run("cat /task/instruction.md; stat -c ' %a %u' /logs/agent; cat /etc/hosts.new; find /opt; grep -c root: /etc/passwd"),
		"do it 777 0\nx/opt\n/opt/only\n1\n")
}

func checkCreateBadFiles(s *scene) {
	env, err := s.provider.CreateEnvironment(s.ctx, environment.CreateOptions{Image: s.opts.Image, Labels: s.labels,
		Files: []environment.Copy{{Src: fstest.MapFS{"l": {Data: []byte("x"), Mode: fs.ModeSymlink | 0o777}}, Dst: "/in"}}})
	if err == nil {
		_ = env.Destroy(s.ctx)
	}
	s.wantKind("a link in Files", err, environment.KindCopy, environment.KindStart)
	if left := s.listed(); len(left) > 0 {
		s.Errorf("left behind: %v", left)
	}
}

func checkCopyNonRoot(s *scene) {
	ref := s.build(map[string]string{
		"Dockerfile": s.from() + "RUN mkdir -p /work && chmod 777 /work\nWORKDIR /work\nUSER nobody\n",
	})
	env := s.create(func(o *environment.CreateOptions) {
		o.Image = ref
		o.Files = []environment.Copy{{Src: files(map[string]string{"a": "early"}), Dst: "/early"}}
	})
	env.copyTo(environment.Copy{Src: files(map[string]string{"b": "late"}), Dst: "/late", Clean: true})
	s.equal("as the image's user", env.run("id -u; pwd; cat /early/a /late/b; stat -c ' %u %a' /late/b"), "65534\n/work\nearlylate 0 644\n")
	o := env.exec(s.ctx, "rm /late/b", environment.ExecOptions{})
	if o.err != nil || o.code == 0 {
		s.Errorf("removing a file of root: exit code %d, error %v, want a failure", o.code, o.err)
	}
	env.copyTo(environment.Copy{Src: files(map[string]string{"c": "again"}), Dst: "/late", Clean: true})
	s.equal("after a clean copy", env.run("cat /late/*"), "again")
}
