package files

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
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// copyToChecks check files that are copied in.
func copyToChecks() []suite.Check {
	return []suite.Check{
		{Name: "files arrive with their modes and belong to root", Run: checkCopyModes},
		{Name: "files arrive with the owners, modes, times and names that they had", Run: checkCopyEntries},
		{Name: "file names with any characters arrive", Run: checkCopyNames},
		{Name: "a file of 64 MiB arrives whole", Run: checkCopyBig},
		{Name: "2,000 files arrive", Run: checkCopyMany},
		{Name: "empty directories arrive", Run: checkCopyEmptyDirs},
		{Name: "a copy keeps files that exist", Run: checkCopyAdds},
		{Name: "copies are made in order", Run: checkCopyOrder},
		{Name: "the mode of the destination is as asked for", Run: checkCopyDstMode},
		{Name: "a clean copy removes files that existed", Run: checkCleanCopy},
		{Name: "a clean copy removes a planted link and spares its target", Run: checkCleanLink},
		{Name: "a destination below a link is inside the environment", Run: checkCopyBelowLink},
		{Name: "a copy is not made by programs of the environment", Run: checkCopyPlantedTar},
		{Name: "links and devices in a source are refused", Run: checkCopyRefused},
		{Name: "links are made where a copy has them, and lead nowhere else", Run: checkCopyLinks},
		{Name: "a copy of nothing is fine", Run: checkCopyNothing},
		{Name: "files are there before the first command", Run: checkCreateFiles},
		{Name: "files that cannot be copied fail the creation", Run: checkCreateBadFiles},
		{Name: "a user who is not root can read copied files", Run: checkCopyNonRoot},
	}
}

func checkCopyModes(s *suite.Scene) {
	env := s.Create()
	tree := fstest.MapFS{
		"run.sh":    {Data: []byte("#!/bin/bash\necho ran\n"), Mode: 0o755},
		"secret":    {Data: []byte("s"), Mode: 0o600},
		"read-only": {Data: []byte("r"), Mode: 0o444},
		"d":         {Mode: fs.ModeDir | 0o700},
		"d/open":    {Data: []byte("o"), Mode: 0o666},
		"d/wide":    {Mode: fs.ModeDir | 0o777},
		"d/wide/in": {Data: nil, Mode: 0o640},
	}
	env.Put(environment.Copy{Src: tree, Dst: "/in/put"})
	s.Equal("modes", env.Run("cd /in/put; stat -c '%n %a %u:%g' . run.sh secret read-only d d/open d/wide d/wide/in"),
		`. 755 0:0
run.sh 755 0:0
secret 600 0:0
read-only 444 0:0
d 700 0:0
d/open 666 0:0
d/wide 777 0:0
d/wide/in 640 0:0
`)
	s.Equal("parents", env.Run("stat -c '%a %u:%g' /in"), "755 0:0\n")
	s.Equal("run.sh", env.Run("/in/put/run.sh"), "ran\n")
}

// checkCopyEntries copies files out, where they get plain names and modes, and into another
// environment.
func checkCopyEntries(s *suite.Scene) {
	const make = `mkdir -p /made/.git /made/shared /made/sticky '/made/a:b'; cd /made; echo main >.git/HEAD; echo x >'a:b/c?d'; echo one >Same; echo two >same
		echo p >private; chmod 640 private; chown 1234:5678 private; chmod 2770 shared; chmod 1733 sticky; echo s >setuid; chmod 6755 setuid; mkdir -m 700 closed; chown 7 closed
		echo deep >closed/f; ln -s private link; chown -h 7:8 link; touch -d @1000000000 private; chmod 711 .; chown 5:6 .`
	const look = `cd /made; stat -c '%n %a %u:%g' . .git .git/HEAD shared sticky a:b 'a:b/c?d' Same same private closed closed/f link; stat -c %Y private; cat .git/HEAD 'a:b/c?d' Same same private closed/f`
	from := s.Create()
	from.Run(make)
	safe := func(name string) string { return strings.NewReplacer(":", "_", "?", "_", ".", "_").Replace(name) }
	f := from.Fetch("/made", environment.ExtractOptions{SafeName: safe}).OK(s)
	if f.Incomplete {
		s.Errorf("it is called incomplete: %+v", f.Omitted)
	}
	to := s.Create()
	copies := environment.Copy{Src: os.DirFS(f.Dst), Dst: "/made", Clean: true, Links: f.Links, Entries: f.Entries}
	to.Run("mkdir -p /made/old; ln -s /etc /made/.git")
	to.Put(copies)
	s.Equal("files", to.Run(look), from.Run(look))
	s.Equal("a setuid file", to.Run("stat -c %a /made/setuid; ls /made | grep -c old || true"), "755\n0\n")

	one := from.Fetch("/made/private", environment.ExtractOptions{SafeName: safe}).OK(s)
	if len(one.Entries) != 1 || one.Entries[0].Path != "." || one.Entries[0].Mode != 0o640 || one.Entries[0].UID != 1234 {
		s.Errorf("entries of a file: %+v", one.Entries)
	}
	copies.Entries = append(slices.Clone(f.Entries), environment.Entry{Path: "none"})
	s.WantKind("an entry without a file", to.CopyTo(s.Ctx, copies), environment.KindCopy)
	copies.Entries = append(slices.Clone(f.Entries), environment.Entry{Path: "../../etc/none", Dir: true})
	s.WantKind("an entry that leads out", to.CopyTo(s.Ctx, copies), environment.KindCopy)
}

func checkCopyNames(s *suite.Scene) {
	env := s.Create()
	content := map[string]string{}
	for _, name := range []string{
		"plain", "with space", " leading and trailing ", "-rf", "--help", "käse-漢字-🚀", "new\nline", "tab\there", `back\slash`,
		`"quotes'`, "$HOME", "*", ".hidden", "..double", "a:b", strings.Repeat("x", 255), "deep/" + strings.Repeat("d/", 40) + "end",
	} {
		content[name] = "content of " + name
	}
	env.Put(environment.Copy{Src: suite.Files(content), Dst: "/in"})
	for name, want := range content {
		s.Equal(fmt.Sprintf("%.40q", name), env.RunWith(`cat "/in/$NAME"`,
			environment.ExecOptions{Env: map[string]string{"NAME": name}}), want)
	}
}

func checkCopyBig(s *suite.Scene) {
	env := s.Create()
	data := make([]byte, 64<<20)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(data)
	sum := sha256.Sum256(data)
	env.Put(environment.Copy{Src: fstest.MapFS{"big": {Data: data, Mode: 0o644}}, Dst: "/in"})
	s.Equal("checksum", env.Run("sha256sum < /in/big"), hex.EncodeToString(sum[:])+"  -\n")
}

func checkCopyMany(s *suite.Scene) {
	env := s.Create()
	content, sum := map[string]string{}, sha256.New()
	for i := range 2000 {
		name, data := fmt.Sprintf("d%02d/f%04d", i/50, i), fmt.Sprintf("file number %d\n", i)
		content[name] = data
		sum.Write([]byte(data))
	}
	env.Put(environment.Copy{Src: suite.Files(content), Dst: "/in"})
	s.Equal("number", env.Run("find /in -type f | wc -l"), "2000\n")
	s.Equal("checksum of all", env.Run("cat /in/*/* | sha256sum"), hex.EncodeToString(sum.Sum(nil))+"  -\n")
}

func checkCopyEmptyDirs(s *suite.Scene) {
	env := s.Create()
	env.Put(environment.Copy{Dst: "/in", Src: fstest.MapFS{
		"empty":       {Mode: fs.ModeDir | 0o755},
		"a/b/c/empty": {Mode: fs.ModeDir | 0o750},
	}})
	s.Equal("directories", env.Run("find /in -type d | sort"), "/in\n/in/a\n/in/a/b\n/in/a/b/c\n/in/a/b/c/empty\n/in/empty\n")
	s.Equal("mode", env.Run("stat -c %a /in/a/b/c/empty"), "750\n")
}

func checkCopyAdds(s *suite.Scene) {
	env := s.Create()
	env.Run("mkdir -p /in/d; echo old > /in/old; echo old > /in/both; echo old > /in/d/old")
	env.Put(environment.Copy{Src: suite.Files(map[string]string{"both": "new\n", "d/new": "new\n"}), Dst: "/in"})
	s.Equal("afterwards", env.Run("cd /in; for f in both d/new d/old old; do echo $f $(cat $f); done"),
		"both new\nd/new new\nd/old old\nold old\n")
}

func checkCopyOrder(s *suite.Scene) {
	env := s.Create()
	env.Put(
		environment.Copy{Src: suite.Files(map[string]string{"a": "first", "b": "first"}), Dst: "/in"},
		environment.Copy{Src: suite.Files(map[string]string{"b": "second", "c": "second"}), Dst: "/in"},
		environment.Copy{Src: suite.Files(map[string]string{"x": "third"}), Dst: "/other"},
		environment.Copy{Src: suite.Files(map[string]string{"c": "fourth"}), Dst: "/in", Clean: true},
	)
	s.Equal("afterwards", env.Run("cd /in; echo *; cat c /other/x"), "c\nfourththird")
}

func checkCopyDstMode(s *suite.Scene) {
	env := s.Create()
	env.Run("mkdir -m 750 /there /there2")
	one := suite.Files(map[string]string{"f": "x"})
	env.Put(
		environment.Copy{Src: one, Dst: "/new"},
		environment.Copy{Src: one, Dst: "/open/logs", Mode: 0o777},
		environment.Copy{Src: one, Dst: "/there"},
		environment.Copy{Src: one, Dst: "/there2", Mode: 0o777},
		environment.Copy{Src: fstest.MapFS{}, Dst: "/empty", Mode: 0o777},
		environment.Copy{Src: fstest.MapFS{}, Dst: "/sticky", Mode: fs.ModeSticky | 0o733, Clean: true},
	)
	s.Equal("modes", env.Run("stat -c '%n %a' /new /open /open/logs /there /there2 /empty /sticky"),
		"/new 755\n/open 755\n/open/logs 777\n/there 750\n/there2 777\n/empty 777\n/sticky 1733\n")
	env.RunWith("touch /open/logs/mine /empty/mine", environment.ExecOptions{User: "nobody"})
}

func checkCleanCopy(s *suite.Scene) {
	env := s.Create()
	for _, planted := range []struct{ name, script string }{
		{"nothing", "true"},
		{"a directory", "mkdir -p /tests/d/e; echo planted > /tests/d/e/f; echo planted > /tests/test.sh; chmod 000 /tests/d"},
		{"a file", "echo planted > /tests"},
		{"a dangling link", "ln -s /nowhere /tests"},
		{"a link to itself", "ln -s /tests /tests"},
		{"a link to a file", "echo spared > /spared; ln -s /spared /tests"},
		{"a fifo", "mkfifo /tests"},
	} {
		env.Run("rm -rf /tests; " + planted.script)
		env.Put(environment.Copy{Src: suite.Files(map[string]string{"test.sh": "true\n"}), Dst: "/tests", Clean: true})
		s.Equal("after "+planted.name, env.Run("find /tests | sort; stat -c %F /tests; cat /tests/test.sh"),
			"/tests\n/tests/test.sh\ndirectory\ntrue\n")
	}
	s.Equal("the link's target", env.Run("cat /spared; test ! -e /nowhere"), "spared\n")
}

// checkCleanLink plants a link, as an agent would to redirect the tests.
func checkCleanLink(s *suite.Scene) {
	env := s.Create()
	const picture = "find /etc | sort | sha256sum; cat /etc/passwd | sha256sum; stat -c '%a %u:%g' /etc"
	env.Run("rm -rf /tests; ln -s /etc /tests; mkdir /d; echo spared > /d/f; ln -s /d /linked")
	before := env.Run(picture)
	tests := suite.Files(map[string]string{"passwd": "overwritten", "test.sh": "true\n", "sub/x": "x"})
	env.Put(
		environment.Copy{Src: tests, Dst: "/tests", Clean: true, Mode: 0o700},
		environment.Copy{Src: tests, Dst: "/linked", Clean: true},
	)
	s.Equal("/etc", env.Run(picture), before)
	s.Equal("/d", env.Run("find /d | sort; cat /d/f"), "/d\n/d/f\nspared\n")
	s.Equal("/tests", env.Run("stat -c '%F %a' /tests /linked; cat /tests/passwd"), "directory 700\ndirectory 755\noverwritten")
}

// checkCopyLinks copies links. Those that are in the way of files are refused: nothing is written
// through them.
func checkCopyLinks(s *suite.Scene) {
	env := s.Create()
	before := env.Run("cat /etc/passwd")
	at := func(name string, kind environment.LinkKind, target string) environment.Link {
		return environment.Link{Path: name, Kind: kind, Target: target}
	}
	src := fstest.MapFS{"d/f": {Data: []byte("fig\n"), Mode: 0o644}, "run": {Data: []byte("x\n"), Mode: 0o755}}
	env.Put(environment.Copy{Src: src, Dst: "/app", Clean: true, Links: []environment.Link{
		at("out", environment.SymbolicLink, "/etc"), at("d/dangling", environment.SymbolicLink, "../../../../../nowhere"), at("self", environment.SymbolicLink, "self"),
		at("d/one", environment.SymbolicLink, "../d/f"), at("two", environment.SymbolicLink, "d/one"), at("new/hard", environment.HardLink, "run"),
	}})
	s.Equal("links", env.Run("cd /app; for l in out d/dangling self d/one two; do test -L $l && echo $l; done; test -e d/dangling || cat two new/hard; test -x new/hard && test -x run && ! test -L new/hard && echo runs"),
		"out\nd/dangling\nself\nd/one\ntwo\nfig\nx\nruns\n")
	s.Equal("what a link leads to", env.Run("cat /app/out/passwd"), before)
	for name, c := range map[string]environment.Copy{
		"a file below a link":     {Src: suite.Files(map[string]string{"a/passwd": "planted"}), Dst: "/bad", Links: []environment.Link{at("a", environment.SymbolicLink, "/etc")}},
		"a link below a link":     {Src: fstest.MapFS{}, Dst: "/bad", Links: []environment.Link{at("a", environment.SymbolicLink, "/etc"), at("a/passwd", environment.SymbolicLink, "/bad")}},
		"a path that leads out":   {Src: fstest.MapFS{}, Dst: "/bad/in", Links: []environment.Link{at("../../etc/passwd", environment.SymbolicLink, "/bad")}},
		"a target that leads out": {Src: fstest.MapFS{}, Dst: "/bad/in", Links: []environment.Link{at("a", environment.HardLink, "../../etc/passwd")}},
	} {
		s.WantKind(name, env.CopyTo(s.Ctx, c), environment.KindCopy)
	}
	s.Equal("/etc/passwd", env.Run("! test -L /etc/passwd && cat /etc/passwd"), before)
}

// checkCopyBelowLink uses links that would leave the environment if they were resolved outside of
// it.
func checkCopyBelowLink(s *suite.Scene) {
	env := s.Create()
	outside := filepath.Join(s.TempDir(), "outside")
	env.RunWith(`mkdir -p /d "$OUTSIDE"; ln -s /d /abs; ln -s ../../../../../../../../../../../d /rel; ln -s "$OUTSIDE" /host`,
		environment.ExecOptions{Env: map[string]string{"OUTSIDE": outside}})
	for _, dst := range []string{"/abs/one", "/rel/two", "/host/three"} {
		env.Put(environment.Copy{Src: suite.Files(map[string]string{"f": "to " + dst}), Dst: dst})
	}
	s.Equal("inside", env.RunWith(`cat /d/one/f /d/two/f "$OUTSIDE/three/f"`,
		environment.ExecOptions{Env: map[string]string{"OUTSIDE": outside}}), "to /abs/oneto /rel/twoto /host/three")
	if _, err := os.Lstat(outside); err == nil {
		s.Errorf("%s was made outside the environment", outside)
	}
	if _, err := os.Lstat("/d/one"); err == nil {
		s.Error("/d/one was made outside the environment")
	}
}

func checkCopyPlantedTar(s *suite.Scene) {
	env := s.Create()
	env.Run(`for p in /bin/tar /usr/bin/tar /usr/local/bin/tar; do
		mkdir -p ${p%/*}; rm -f $p; printf '#!/bin/bash\ncat >/dev/null; touch /tmp/used\n' > $p; chmod 755 $p; done`)
	env.Put(environment.Copy{Src: suite.Files(map[string]string{"f": "real"}), Dst: "/in", Clean: true, Mode: 0o755})
	s.Equal("copied", env.Run("cat /in/f; test -e /tmp/used && echo the planted tar was used || true"), "real")
}

func checkCopyRefused(s *suite.Scene) {
	env := s.Create()
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
		s.WantKind(name, env.CopyTo(s.Ctx, environment.Copy{Src: src, Dst: "/refused"}), environment.KindCopy)
	}
	s.Equal("the next command", env.Run("find /refused -type l -o -type p; echo fine"), "fine\n")
}

func checkCopyNothing(s *suite.Scene) {
	env := s.Create()
	env.Put()
	env.Put(environment.Copy{Src: fstest.MapFS{}, Dst: "/in/empty"})
	s.Equal("directory", env.Run("find /in | sort"), "/in\n/in/empty\n")
}

func checkCreateFiles(s *suite.Scene) {
	env := s.Create(func(o *environment.CreateOptions) {
		o.Files = []environment.Copy{
			{Src: suite.Files(map[string]string{"instruction.md": "do it"}), Dst: "/task"},
			{Src: fstest.MapFS{}, Dst: "/logs/agent", Mode: 0o777},
			{Src: suite.Files(map[string]string{"hosts.new": "x"}), Dst: "/etc", Mode: 0},
			{Src: suite.Files(map[string]string{"only": "this"}), Dst: "/opt", Clean: true},
		}
	})
	s.Equal("files", env.Run("cat /task/instruction.md; stat -c ' %a %u' /logs/agent; cat /etc/hosts.new; find /opt; grep -c root: /etc/passwd"),
		"do it 777 0\nx/opt\n/opt/only\n1\n")
}

func checkCreateBadFiles(s *suite.Scene) {
	env, err := s.Provider.CreateEnvironment(s.Ctx, environment.CreateOptions{Image: s.Opts.Image, Labels: s.Labels,
		Files: []environment.Copy{{Src: fstest.MapFS{"l": {Data: []byte("x"), Mode: fs.ModeSymlink | 0o777}}, Dst: "/in"}}})
	if err == nil {
		_ = env.Destroy(s.Ctx)
	}
	s.WantKind("a link in Files", err, environment.KindCopy, environment.KindStart)
	if left := s.Listed(); len(left) > 0 {
		s.Errorf("left behind: %v", left)
	}
}

func checkCopyNonRoot(s *suite.Scene) {
	ref := s.Build(map[string]string{
		"Dockerfile": s.From() + "RUN mkdir -p /work && chmod 777 /work\nWORKDIR /work\nUSER nobody\n",
	})
	env := s.Create(func(o *environment.CreateOptions) {
		o.Image = ref
		o.Files = []environment.Copy{{Src: suite.Files(map[string]string{"a": "early"}), Dst: "/early"}}
	})
	env.Put(environment.Copy{Src: suite.Files(map[string]string{"b": "late"}), Dst: "/late", Clean: true})
	s.Equal("as the image's user", env.Run("id -u; pwd; cat /early/a /late/b; stat -c ' %u %a' /late/b"), "65534\n/work\nearlylate 0 644\n")
	o := env.Do(s.Ctx, "rm /late/b", environment.ExecOptions{})
	if o.Err != nil || o.Code == 0 {
		s.Errorf("removing a file of root: exit code %d, error %v, want a failure", o.Code, o.Err)
	}
	env.Put(environment.Copy{Src: suite.Files(map[string]string{"c": "again"}), Dst: "/late", Clean: true})
	s.Equal("after a clean copy", env.Run("cat /late/*"), "again")
}
