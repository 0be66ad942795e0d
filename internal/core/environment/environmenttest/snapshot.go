package environmenttest

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
)

// snapshotChecks check snapshots and stored images.
func snapshotChecks() []check {
	return []check{
		{"a snapshot has the files of its environment and the settings of its image", needing(snapshotter, checkSnapshot)},
		{"a snapshot has no processes, and its environment is lost", needing(snapshotter, checkSnapshotEnds)},
		{"a snapshot is found by its key", needing(snapshotter, checkSnapshotFound)},
		{"all that a snapshot keeps is inspected, and nothing else", needing(snapshotter, checkSnapshotInspected)},
		{"a snapshot that is refused is not kept", needing(snapshotter, checkSnapshotRefused)},
		{"an environment with variables of its own becomes no image", needing(snapshotter, checkSnapshotVariables)},
		{"a snapshot replaces the one under its key, whose environments live on", needing(snapshotter, checkSnapshotReplaced)},
		{"a snapshot of a snapshot has both one's files", needing(snapshotter, checkSnapshotTwice)},
		{"an image's id is that of its content", needing(imageIdentifier, checkImageID)},
		{"a snapshot's lock keeps others out", needing(snapshotter, checkSnapshotLock)},
		{"images are listed, and removed when nothing uses them", needing(imageStore, checkImages)},
	}
}

// key returns a key for a snapshot of this check.
func (s *scene) key(part string) string {
	sum := sha256.Sum256([]byte(s.labels.Job + part))
	return hex.EncodeToString(sum[:])
}

// snapshot makes an image from an environment and removes it at the end of the check.
func (s *scene) snapshot(b *box, opts environment.SnapshotOptions) string {
	s.Helper()
	ref, err := environment.Snapshot(s.ctx, b.Environment, opts)
	if err != nil {
		s.Fatalf("Snapshot: %v", err)
	}
	if err := b.Destroy(s.ctx); err != nil {
		s.Fatalf("Destroy after Snapshot: %v", err)
	}
	if s.opts.Forget != nil {
		s.Cleanup(func() { s.opts.Forget(s, ref) })
	}
	return ref
}

// on returns a change that makes create use an image.
func on(ref string) func(*environment.CreateOptions) {
	return func(o *environment.CreateOptions) { o.Image = ref }
}

func checkSnapshot(s *scene) {
	const state = `cd / && pwd -P && id -u && stat -c '%n %a %u %g %s' /made /made/tool /made/private /etc/passwd /etc/group &&
		cat /made/tool && readlink /made/link && ls -A /made /srv /opt`
	b := s.create()
	settings := b.run("pwd; echo $PATH; id -u")
	b.run(`mkdir -m 0750 /made && echo 'echo works' >/made/tool && chmod 0755 /made/tool && echo x >/made/private && chmod 0600 /made/private &&
		ln -s tool /made/link && echo '#' >>/etc/group && rm -rf /opt/* && touch /srv/.hidden`)
	before := b.run(state)
	again := s.create(on(s.snapshot(b, environment.SnapshotOptions{Key: s.key("")})))
	s.equal("the files", again.run(state), before)
	s.equal("the settings", again.run("pwd; echo $PATH; id -u"), settings)
	s.equal("a program", again.run("/made/link"), "works\n")
	if got := s.listed(); len(got) != 1 || got[0].Labels != s.labels || got[0].Kept {
		s.Errorf("listed %+v, want one environment with the labels %+v, not kept", got, s.labels)
	}
	s.equal("another environment of the first image", s.create().run("test -e /made || echo none"), "none\n")
}

func checkSnapshotEnds(s *scene) {
	b := s.create()
	b.run("(while :; do date +%N >/tick; sleep 0.01; done) >/dev/null 2>&1 & while ! test -s /tick; do sleep 0.01; done")
	again := s.create(on(s.snapshot(b, environment.SnapshotOptions{Key: s.key("")})))
	s.equal("the tick", again.run(`cp /tick /then; sleep 0.3; test "$(cat /tick)" = "$(cat /then)" && echo still`), "still\n")
	s.isLost(b)
}

func checkSnapshotFound(s *scene) {
	other := s.newProvider()
	find := func(when, key, want, about string) {
		s.Helper()
		for _, p := range []environment.Provider{s.provider, other} {
			if ref, said, err := environment.FindSnapshot(s.ctx, p, key); err != nil || ref != want || said != about {
				s.Errorf("FindSnapshot %s: %q, %q, %v, want %q, %q", when, ref, said, err, want, about)
			}
		}
	}
	const about = "made \"by\" the check=1"
	find("before", s.key(""), "", "")
	b := s.create()
	b.run("echo found >/file")
	ref := s.snapshot(b, environment.SnapshotOptions{Key: s.key(""), Description: about})
	find("afterwards", s.key(""), ref, about)
	find("with another key", s.key("another"), "", "")
	env, err := other.CreateEnvironment(s.ctx, environment.CreateOptions{Image: ref, Labels: s.labels})
	if err != nil {
		s.Fatalf("another provider's CreateEnvironment: %v", err)
	}
	there := &box{env, s}
	defer there.Destroy(s.ctx)
	s.equal("another provider's files", there.run("cat /file"), "found\n")
}

func checkSnapshotInspected(s *scene) {
	b := s.create()
	b.run(`mkdir -p /home/a/.config && printf 'in a file' >/home/a/.config/f && ln -s 'in-a-link' /srv/link && touch $'/srv/in a\nname' &&
		mkdir /srv/folder && chmod 0 /srv/folder && head -c 3000000 /dev/zero | tr '\0' 'z' >/srv/large && printf more >>/etc/passwd && chmod 0 /home/a/.config/f`)
	seen := map[string]string{}
	s.snapshot(b, environment.SnapshotOptions{Key: s.key(""), Inspect: func(file *tar.Header, content io.Reader) error {
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
		s.equal(name, got, want)
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

func checkSnapshotRefused(s *scene) {
	b := s.create()
	b.run("echo refused >/file")
	refusal := errors.New("refused by the check")
	_, err := environment.Snapshot(s.ctx, b.Environment, environment.SnapshotOptions{Key: s.key(""), Inspect: func(file *tar.Header, _ io.Reader) error {
		if file.Name == "/file" {
			return refusal
		}
		return nil
	}})
	s.wantKind("Snapshot", err, environment.KindSnapshot)
	if !errors.Is(err, refusal) {
		s.Errorf("Snapshot: %v, want %v in the chain", err, refusal)
	}
	if ref, _, err := environment.FindSnapshot(s.ctx, s.provider, s.key("")); err != nil || ref != "" {
		s.Errorf("FindSnapshot: %q, %v, want none", ref, err)
	}
	if err := b.Destroy(s.ctx); err != nil {
		s.Errorf("Destroy: %v", err)
	}
}

func checkSnapshotVariables(s *scene) {
	b := s.create(func(o *environment.CreateOptions) { o.Env = map[string]string{"OWN_VARIABLE": "its value"} })
	_, err := environment.Snapshot(s.ctx, b.Environment, environment.SnapshotOptions{Key: s.key("")})
	s.wantKind("Snapshot", err, environment.KindSnapshot)
	if ref, _, err := environment.FindSnapshot(s.ctx, s.provider, s.key("")); err != nil || ref != "" {
		s.Errorf("FindSnapshot: %q, %v, want none", ref, err)
	}
}

func checkSnapshotReplaced(s *scene) {
	keep := func(text string) string {
		b := s.create()
		b.run("echo " + text + " >/file")
		return s.snapshot(b, environment.SnapshotOptions{Key: s.key("")})
	}
	old := s.create(on(keep("old")))
	young := s.create(on(keep("young")))
	s.equal("the new one's file", young.run("cat /file"), "young\n")
	s.equal("the old one's file", old.run("cat /file"), "old\n")
}

func checkSnapshotTwice(s *scene) {
	first := s.create()
	first.run("echo 1 >/first; echo 1 >/both; mkdir /folder; echo 1 >/folder/old")
	second := s.create(on(s.snapshot(first, environment.SnapshotOptions{Key: s.key("1")})))
	second.run("echo 2 >/second; echo 2 >/both; rm -r /folder; mkdir /folder; echo 2 >/folder/new")
	third := s.create(on(s.snapshot(second, environment.SnapshotOptions{Key: s.key("2")})))
	s.equal("the files", third.run("cat /first /second /both; ls /folder"), "1\n2\n2\nnew\n")
}

func checkImageID(s *scene) {
	id := func(p environment.Provider, ref string) string {
		s.Helper()
		id, err := environment.ImageID(s.ctx, p, ref)
		if err != nil || id == "" {
			s.Fatalf("ImageID(%s): %q, %v", ref, id, err)
		}
		return id
	}
	first := id(s.provider, s.opts.Image)
	s.equal("the id asked for again, by another", id(s.newProvider(), s.opts.Image), first)
	ids := []string{first}
	missing := s.opts.Image + "-never-made"
	for _, text := range []string{"one", "two"} {
		built := s.build(map[string]string{"file": text + s.labels.Job, "Dockerfile": s.from() + "COPY file /file\n"})
		ids = append(ids, id(s.provider, built))
		if s.lacks(snapshotter) {
			continue
		}
		b := s.create()
		b.run("echo " + text + " >/file")
		kept := s.snapshot(b, environment.SnapshotOptions{Key: s.key("")})
		ids = append(ids, id(s.provider, kept))
		missing = strings.ReplaceAll(kept, s.key(""), s.key("never made"))
	}
	slices.Sort(ids)
	if different := slices.Compact(slices.Clone(ids)); len(different) != len(ids) {
		s.Errorf("%d contents have the ids %q", len(ids), different)
	}
	if _, err := environment.ImageID(s.ctx, s.provider, missing); !errors.Is(err, environment.ErrNoImage) {
		s.Errorf("ImageID of an image that is not there: %v, want ErrNoImage", err)
	}
}

func checkSnapshotLock(s *scene) {
	other := s.newProvider()
	unlock, err := environment.LockSnapshot(s.ctx, s.provider, s.key(""))
	if err != nil {
		s.Fatalf("LockSnapshot: %v", err)
	}
	held := make(chan func(), 1)
	go func() {
		again, err := environment.LockSnapshot(s.ctx, other, s.key(""))
		if err != nil {
			s.Errorf("LockSnapshot of another: %v", err)
			again = func() {}
		}
		held <- again
	}()
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if wrong, err := environment.LockSnapshot(ctx, other, s.key("")); err == nil {
		wrong()
		s.Error("LockSnapshot with a context that has ended got the lock of another")
	}
	select {
	case <-held:
		s.Fatal("two had the lock at once")
	default:
	}
	unlock()
	s.within("LockSnapshot after unlock", func() { (<-held)() })
}

// storedImage makes an image that the provider keeps; its Image.Name contains about.
func (s *scene) storedImage() (ref, about string) {
	s.Helper()
	about = "check-" + s.key("")[:12]
	if s.lacks(snapshotter) {
		ref, err := s.provider.BuildImage(s.ctx, environment.BuildOptions{Name: about, Context: files(map[string]string{
			"Dockerfile": s.from() + "RUN echo file >/file\n",
		})})
		if err != nil {
			s.Fatalf("BuildImage: %v", err)
		}
		return ref, about
	}
	b := s.create()
	b.run("echo file >/file")
	return s.snapshot(b, environment.SnapshotOptions{Key: s.key(""), Description: "made by " + about}), about
}

func checkImages(s *scene) {
	store, _ := environment.As[environment.ImageStore](s.provider)
	another, _ := environment.As[environment.ImageStore](s.newProvider())
	ref, about := s.storedImage()
	listed := func() *environment.Image {
		s.Helper()
		all, err := another.Images(s.ctx)
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
	env := s.create(on(ref))
	if used := listed(); used == nil || !used.InUse {
		s.Errorf("an image that an environment uses is listed as %+v", used)
	}
	if err := store.RemoveImage(s.ctx, free.ID); err == nil {
		s.Error("RemoveImage removed what an environment uses")
	}
	s.equal("the file", env.run("cat /file"), "file\n")
	if err := env.Destroy(s.ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	for range 2 {
		if err := store.RemoveImage(s.ctx, free.ID); err != nil {
			s.Fatalf("RemoveImage: %v", err)
		}
	}
	if left := listed(); left != nil {
		s.Errorf("still listed: %+v", left)
	}
	if !s.lacks(snapshotter) {
		if left, _, err := environment.FindSnapshot(s.ctx, s.provider, s.key("")); err != nil || left != "" {
			s.Errorf("FindSnapshot of what was removed: %q, %v", left, err)
		}
	}
	if _, err := s.provider.CreateEnvironment(s.ctx, environment.CreateOptions{Image: ref, Labels: s.labels}); err == nil {
		s.Error("CreateEnvironment of what was removed")
	} else if !errors.Is(err, environment.ErrNoImage) {
		s.Errorf("CreateEnvironment of what was removed: %v, want ErrNoImage", err)
	}
}
