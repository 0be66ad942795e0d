package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// snapshotChecks check snapshots and stored images.
func snapshotChecks() []suite.Check {
	return []suite.Check{
		{Name: "a snapshot has the files of its environment and the settings of its image", Run: suite.Needing(suite.Snapshotter, checkSnapshot)},
		{Name: "a snapshot has no processes, and its environment is lost", Run: suite.Needing(suite.Snapshotter, checkSnapshotEnds)},
		{Name: "a snapshot is found by its key", Run: suite.Needing(suite.Snapshotter, checkSnapshotFound)},
		{Name: "all that a snapshot keeps is inspected, and nothing else", Run: suite.Needing(suite.Snapshotter, checkSnapshotInspected)},
		{Name: "a snapshot that is refused is not kept", Run: suite.Needing(suite.Snapshotter, checkSnapshotRefused)},
		{Name: "an environment with its own variables becomes no image", Run: suite.Needing(suite.Snapshotter, checkSnapshotVariables)},
		{Name: "a snapshot replaces the one under its key, whose environments live on", Run: suite.Needing(suite.Snapshotter, checkSnapshotReplaced)},
		{Name: "a snapshot of a snapshot has both one's files", Run: suite.Needing(suite.Snapshotter, checkSnapshotTwice)},
		{Name: "an image's id is that of its content", Run: suite.Needing(suite.ImageIdentifier, checkImageID)},
		{Name: "a snapshot's lock keeps others out", Run: suite.Needing(suite.Snapshotter, checkSnapshotLock)},
		{Name: "images are listed, and removed when nothing uses them", Run: suite.Needing(suite.ImageStore, checkImages)},
	}
}

func checkSnapshot(s *suite.Scene) {
	const state = `cd / && pwd -P && id -u && stat -c '%n %a %u %g %s' /made /made/tool /made/private /etc/passwd /etc/group &&
		cat /made/tool && readlink /made/link && ls -A /made /srv /opt`
	b := s.Create()
	settings := b.Run("pwd; echo $PATH; id -u")
	b.Run(`mkdir -m 0750 /made && echo 'echo works' >/made/tool && chmod 0755 /made/tool && echo x >/made/private && chmod 0600 /made/private &&
		ln -s tool /made/link && echo '#' >>/etc/group && rm -rf /opt/* && touch /srv/.hidden`)
	before := b.Run(state)
	again := s.Create(suite.On(s.Snapshot(b, environment.SnapshotOptions{Key: s.Key("")})))
	s.Equal("the files", again.Run(state), before)
	s.Equal("the settings", again.Run("pwd; echo $PATH; id -u"), settings)
	s.Equal("a program", again.Run("/made/link"), "works\n")
	if got := s.Listed(); len(got) != 1 || got[0].Labels != s.Labels || got[0].Kept {
		s.Errorf("listed %+v, want one environment with the labels %+v, not kept", got, s.Labels)
	}
	s.Equal("another environment of the first image", s.Create().Run("test -e /made || echo none"), "none\n")
}

func checkSnapshotEnds(s *suite.Scene) {
	b := s.Create()
	b.Run("(while :; do date +%N >/tick; sleep 0.01; done) >/dev/null 2>&1 & while ! test -s /tick; do sleep 0.01; done")
	again := s.Create(suite.On(s.Snapshot(b, environment.SnapshotOptions{Key: s.Key("")})))
	s.Equal("the tick", again.Run(`cp /tick /then; sleep 0.3; test "$(cat /tick)" = "$(cat /then)" && echo still`), "still\n")
	s.IsLost(b)
}

func checkSnapshotFound(s *suite.Scene) {
	other := s.NewProvider()
	find := func(when, key, want, about string) {
		s.Helper()
		for _, p := range []environment.Provider{s.Provider, other} {
			if ref, said, err := environment.FindSnapshot(s.Ctx, p, key); err != nil || ref != want || said != about {
				s.Errorf("FindSnapshot %s: %q, %q, %v, want %q, %q", when, ref, said, err, want, about)
			}
		}
	}
	const about = "made \"by\" the check=1"
	find("before", s.Key(""), "", "")
	b := s.Create()
	b.Run("echo found >/file")
	ref := s.Snapshot(b, environment.SnapshotOptions{Key: s.Key(""), Description: about})
	find("afterwards", s.Key(""), ref, about)
	find("with another key", s.Key("another"), "", "")
	env, err := other.CreateEnvironment(s.Ctx, environment.CreateOptions{Image: ref, Labels: s.Labels})
	if err != nil {
		s.Fatalf("another provider's CreateEnvironment: %v", err)
	}
	there := &suite.Env{Environment: env, Scene: s}
	defer there.Destroy(s.Ctx)
	s.Equal("another provider's files", there.Run("cat /file"), "found\n")
}

func checkSnapshotInspected(s *suite.Scene) {
	b := s.Create()
	b.Run(`mkdir -p /home/a/.config && printf 'in a file' >/home/a/.config/f && ln -s 'in-a-link' /srv/link && touch $'/srv/in a\nname' &&
		mkdir /srv/folder && chmod 0 /srv/folder && head -c 3000000 /dev/zero | tr '\0' 'z' >/srv/large && printf more >>/etc/passwd && chmod 0 /home/a/.config/f`)
	seen := map[string]string{}
	s.Snapshot(b, environment.SnapshotOptions{Key: s.Key(""), Inspect: func(file *tar.Header, content io.Reader) error {
		text, err := io.ReadAll(content)
		if int64(len(text)) != file.Size {
			return fmt.Errorf("%s: %d bytes, and its size is %d", file.Name, len(text), file.Size)
		}
		seen[file.Name] = string(text) + file.Linkname
		return err
	}})
	for name, want := range map[string]string{
		"/home/a/.config/f": "in a file", "/srv/link": "in-a-link", "/srv/in a\nname": "", "/srv/folder": "", "/srv/large": strings.Repeat("z", 3000000),
	} {
		got, ok := seen[name]
		if !ok {
			s.Errorf("%q was not inspected", name)
		}
		s.Equal(name, got, want)
	}
	if !strings.HasSuffix(seen["/etc/passwd"], "more") {
		s.Errorf("a file that was changed was not inspected: %.100q", seen["/etc/passwd"])
	}
	for _, name := range []string{"/etc/group", "/bin/bash", "/usr/bin/bash"} {
		if _, ok := seen[name]; ok {
			s.Errorf("%s is the image's, and was inspected", name)
		}
	}
}

func checkSnapshotRefused(s *suite.Scene) {
	b := s.Create()
	b.Run("echo refused >/file")
	refusal := errors.New("refused by the check")
	_, err := environment.Snapshot(s.Ctx, b.Environment, environment.SnapshotOptions{Key: s.Key(""), Inspect: func(file *tar.Header, _ io.Reader) error {
		if file.Name == "/file" {
			return refusal
		}
		return nil
	}})
	s.WantKind("Snapshot", err, environment.KindSnapshot)
	if !errors.Is(err, refusal) {
		s.Errorf("Snapshot: %v, want %v in the chain", err, refusal)
	}
	if ref, _, err := environment.FindSnapshot(s.Ctx, s.Provider, s.Key("")); err != nil || ref != "" {
		s.Errorf("FindSnapshot: %q, %v, want none", ref, err)
	}
	if err := b.Destroy(s.Ctx); err != nil {
		s.Errorf("Destroy: %v", err)
	}
}

func checkSnapshotVariables(s *suite.Scene) {
	b := s.Create(func(o *environment.CreateOptions) { o.Env = map[string]string{"OWN_VARIABLE": "its value"} })
	_, err := environment.Snapshot(s.Ctx, b.Environment, environment.SnapshotOptions{Key: s.Key("")})
	s.WantKind("Snapshot", err, environment.KindSnapshot)
	if ref, _, err := environment.FindSnapshot(s.Ctx, s.Provider, s.Key("")); err != nil || ref != "" {
		s.Errorf("FindSnapshot: %q, %v, want none", ref, err)
	}
}

func checkSnapshotReplaced(s *suite.Scene) {
	keep := func(text string) string {
		b := s.Create()
		b.Run("echo " + text + " >/file")
		return s.Snapshot(b, environment.SnapshotOptions{Key: s.Key("")})
	}
	old := s.Create(suite.On(keep("old")))
	young := s.Create(suite.On(keep("young")))
	s.Equal("the new one's file", young.Run("cat /file"), "young\n")
	s.Equal("the old one's file", old.Run("cat /file"), "old\n")
}

func checkSnapshotTwice(s *suite.Scene) {
	first := s.Create()
	first.Run("echo 1 >/first; echo 1 >/both; mkdir /folder; echo 1 >/folder/old")
	second := s.Create(suite.On(s.Snapshot(first, environment.SnapshotOptions{Key: s.Key("1")})))
	second.Run("echo 2 >/second; echo 2 >/both; rm -r /folder; mkdir /folder; echo 2 >/folder/new")
	third := s.Create(suite.On(s.Snapshot(second, environment.SnapshotOptions{Key: s.Key("2")})))
	s.Equal("the files", third.Run("cat /first /second /both; ls /folder"), "1\n2\n2\nnew\n")
}

func checkImageID(s *suite.Scene) {
	id := func(p environment.Provider, ref string) string {
		s.Helper()
		id, err := environment.ImageID(s.Ctx, p, ref)
		if err != nil || id == "" {
			s.Fatalf("ImageID(%s): %q, %v", ref, id, err)
		}
		return id
	}
	first := id(s.Provider, s.Opts.Image)
	s.Equal("the id asked for again, by another", id(s.NewProvider(), s.Opts.Image), first)
	ids := []string{first}
	missing := s.Opts.Image + "-never-made"
	for _, text := range []string{"one", "two"} {
		built := s.Build(map[string]string{"file": text + s.Labels.Job, "Dockerfile": s.From() + "COPY file /file\n"})
		ids = append(ids, id(s.Provider, built))
		if s.Lacks(suite.Snapshotter) {
			continue
		}
		b := s.Create()
		b.Run("echo " + text + " >/file")
		kept := s.Snapshot(b, environment.SnapshotOptions{Key: s.Key("")})
		ids = append(ids, id(s.Provider, kept))
		missing = strings.ReplaceAll(kept, s.Key(""), s.Key("never made"))
	}
	slices.Sort(ids)
	if different := slices.Compact(slices.Clone(ids)); len(different) != len(ids) {
		s.Errorf("%d contents have the ids %q", len(ids), different)
	}
	if _, err := environment.ImageID(s.Ctx, s.Provider, missing); !errors.Is(err, environment.ErrNoImage) {
		s.Errorf("ImageID of an image that is not there: %v, want ErrNoImage", err)
	}
}

func checkSnapshotLock(s *suite.Scene) {
	other := s.NewProvider()
	unlock, err := environment.LockSnapshot(s.Ctx, s.Provider, s.Key(""))
	if err != nil {
		s.Fatalf("LockSnapshot: %v", err)
	}
	held := make(chan func(), 1)
	go func() {
		again, err := environment.LockSnapshot(s.Ctx, other, s.Key(""))
		if err != nil {
			s.Errorf("LockSnapshot of another: %v", err)
			again = func() {}
		}
		held <- again
	}()
	ctx, cancel := context.WithCancel(s.Ctx)
	cancel()
	if wrong, err := environment.LockSnapshot(ctx, other, s.Key("")); err == nil {
		wrong()
		s.Error("LockSnapshot with a context that has ended got the lock of another")
	}
	select {
	case <-held:
		s.Fatal("two had the lock at once")
	default:
	}
	unlock()
	s.Within("LockSnapshot after unlock", func() { (<-held)() })
}

// storedImage makes an image that the provider keeps; its Image.Name contains about.
func storedImage(s *suite.Scene) (ref, about string) {
	s.Helper()
	about = "check-" + s.Key("")[:12]
	if s.Lacks(suite.Snapshotter) {
		ref, err := s.Provider.BuildImage(s.Ctx, environment.BuildOptions{Name: about, Context: suite.Files(map[string]string{
			"Dockerfile": s.From() + "RUN echo file >/file\n",
		})})
		if err != nil {
			s.Fatalf("BuildImage: %v", err)
		}
		return ref, about
	}
	b := s.Create()
	b.Run("echo file >/file")
	return s.Snapshot(b, environment.SnapshotOptions{Key: s.Key(""), Description: "made by " + about}), about
}

func checkImages(s *suite.Scene) {
	store, _ := environment.As[environment.ImageStore](s.Provider)
	another, _ := environment.As[environment.ImageStore](s.NewProvider())
	ref, about := storedImage(s)
	listed := func() *environment.Image {
		s.Helper()
		all, err := another.Images(s.Ctx)
		if err != nil {
			s.Fatalf("Images: %v", err)
		}
		i := slices.IndexFunc(all, func(i environment.Image) bool { return strings.Contains(i.Name, about) })
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	free := listed()
	if free == nil || free.InUse || free.ID == "" || free.Used.IsZero() {
		s.Fatalf("an image that nothing uses is listed as %+v", free)
	}
	env := s.Create(suite.On(ref))
	if used := listed(); used == nil || !used.InUse {
		s.Errorf("an image that an environment uses is listed as %+v", used)
	}
	if err := store.RemoveImage(s.Ctx, free.ID); err == nil {
		s.Error("RemoveImage removed what an environment uses")
	}
	s.Equal("the file", env.Run("cat /file"), "file\n")
	if err := env.Destroy(s.Ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	for range 2 {
		if err := store.RemoveImage(s.Ctx, free.ID); err != nil {
			s.Fatalf("RemoveImage: %v", err)
		}
	}
	if left := listed(); left != nil {
		s.Errorf("still listed: %+v", left)
	}
	if !s.Lacks(suite.Snapshotter) {
		if left, _, err := environment.FindSnapshot(s.Ctx, s.Provider, s.Key("")); err != nil || left != "" {
			s.Errorf("FindSnapshot of a removed image: %q, %v", left, err)
		}
	}
	if _, err := s.Provider.CreateEnvironment(s.Ctx, environment.CreateOptions{Image: ref, Labels: s.Labels}); err == nil {
		s.Error("CreateEnvironment of a removed image")
	} else if !errors.Is(err, environment.ErrNoImage) {
		s.Errorf("CreateEnvironment of a removed image: %v, want ErrNoImage", err)
	}
}
