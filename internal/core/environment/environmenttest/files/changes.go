package files

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// changeChecks check the files that an environment reports as different from its image.
func changeChecks() []suite.Check {
	return []suite.Check{
		{Name: "files that were added, changed and deleted are told, as they were and as they are", Run: suite.Needing(suite.ChangeReporter, checkChanges)},
		{Name: "an environment in which nothing was changed has no changes", Run: suite.Needing(suite.ChangeReporter, checkNoChanges)},
		{Name: "changes are chosen and counted", Run: suite.Needing(suite.ChangeReporter, checkChangesChosen)},
		{Name: "a list of changes leaves nothing behind", Run: suite.Needing(suite.ChangeReporter, checkChangesLeaveNothing)},
	}
}

// changes returns the changes of an environment, without those that it may make by itself.
func changes(b *suite.Env, opts environment.ChangeOptions) environment.Changes {
	b.Scene.Helper()
	var got environment.Changes
	var err error
	b.Scene.Within("Changes", func() { got, err = environment.ChangesOf(b.Scene.Ctx, b.Environment, opts) })
	if err != nil {
		b.Scene.Fatalf("Changes: %v", err)
	}
	return got
}

// described returns changes as lines.
func described(c environment.Changes) string {
	state := func(s *environment.FileState) string {
		switch {
		case s == nil:
			return "none"
		case s.Mode.IsDir():
			return "directory"
		case s.Mode&fs.ModeSymlink != 0:
			return "link to " + s.Link
		case s.Text == nil:
			return fmt.Sprintf("%o, %d bytes", s.Mode.Perm(), s.Size)
		}
		return fmt.Sprintf("%o %q", s.Mode.Perm(), s.Text)
	}
	var b strings.Builder
	for _, f := range c.Files {
		fmt.Fprintf(&b, "%s: %s, then %s\n", f.Path, state(f.Before), state(f.After))
	}
	return b.String()
}

func checkChanges(s *suite.Scene) {
	const most = 100
	made := s.Create()
	made.Run(`mkdir -p /srv/in && cd /srv/in && echo one >kept && echo two >text && echo gone >gone && echo mode >mode && ln -s kept link && printf %3000s x >large &&
		mkdir tree && echo deep >tree/deep`)
	b := made
	if !s.Lacks(suite.Snapshotter) { // earlier files are in the image
		b = s.Create(suite.On(s.Snapshot(made, environment.SnapshotOptions{Key: s.Key("changes")})))
		b.Run("cd /srv/in && echo 2 >>text && rm gone && chmod 0700 mode && rm link && ln -s text link && echo >>large && rm -r tree && touch kept")
	}
	b.Run(`mkdir -p /srv/in/new/below && cd /srv/in/new && echo 'a new one' >file && ln -s /nowhere link && printf %2000s x >large && printf 'a\0b' >binary && : >empty && chmod 0640 empty`)
	skip := func(path string) bool { return !strings.HasPrefix(path, "/srv/in/") }
	want := `/srv/in/new/below: none, then directory
/srv/in/new/binary: none, then 644 "a\x00b"
/srv/in/new/empty: none, then 640 ""
/srv/in/new/file: none, then 644 "a new one\n"
/srv/in/new/large: none, then 644, 2000 bytes
/srv/in/new/link: none, then link to /nowhere
`
	if b != made {
		want = `/srv/in/gone: 644 "gone\n", then none
/srv/in/large: 644, 3000 bytes, then 644, 3001 bytes
/srv/in/link: link to kept, then link to text
/srv/in/mode: 644 "mode\n", then 700 "mode\n"
` + want + `/srv/in/text: 644 "two\n", then 644 "two\n2\n"
/srv/in/tree: directory, then none
`
	}
	got := changes(b, environment.ChangeOptions{Skip: skip, Files: 100, Text: most})
	s.Equal("the changes", described(got), want)
	if got.More != 0 || got.Unnamed != 0 {
		s.Errorf("%d more and %d without names", got.More, got.Unnamed)
	}
	b.Run("true") // it lives on
}

func checkNoChanges(s *suite.Scene) {
	b := s.Create()
	b.Run("cat /etc/passwd >/dev/null")
	system := func(path string) bool { // which a provider may change before the first command
		for _, dir := range []string{"/dev", "/proc", "/sys", "/run", "/etc", "/tmp"} {
			if path == dir || strings.HasPrefix(path, dir+"/") {
				return true
			}
		}
		return false
	}
	if got := changes(b, environment.ChangeOptions{Skip: system, Files: 100, Text: 100}); len(got.Files) > 0 || got.More > 0 {
		s.Errorf("changes: %+v", got)
	}
}

func checkChangesChosen(s *suite.Scene) {
	b := s.Create()
	b.Run("mkdir -p /srv/a /srv/b && cd /srv && for n in 1 2 3 4; do echo $n >a/$n; echo $n >b/$n; done")
	got := changes(b, environment.ChangeOptions{Skip: func(path string) bool { return !strings.HasPrefix(path, "/srv/") || path == "/srv/a/1" }, First: "/srv/b", Files: 5, Text: 100})
	s.Equal("the first five", described(got), `/srv/b/1: none, then 644 "1\n"
/srv/b/2: none, then 644 "2\n"
/srv/b/3: none, then 644 "3\n"
/srv/b/4: none, then 644 "4\n"
/srv/a/2: none, then 644 "2\n"
`)
	if got.More != 2 {
		s.Errorf("%d more, want 2", got.More)
	}
}

func checkChangesLeaveNothing(s *suite.Scene) {
	b := s.Create()
	b.Run("echo '#' >>/etc/passwd")
	changes(b, environment.ChangeOptions{Files: 1000, Text: 1000})
	if got := s.Listed(); len(got) != 1 {
		s.Errorf("listed after Changes: %+v, want the one environment", got)
	}
}
