package kubernetes

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// treeGuest is a guest with files: each line has a type (d, f or l), a path, and for files a size.
// A "!" behind it says that it is recent.
type treeGuest struct {
	inContainer
	lines []string
}

func (g treeGuest) Files(context.Context) iter.Seq2[initwire.File, error] {
	return func(yield func(initwire.File, error) bool) {
		for _, line := range g.lines {
			line, recent := strings.CutSuffix(line, "!")
			f := initwire.File{Recent: recent}
			var kind, path string
			_, _ = fmt.Sscan(line, &kind, &path, &f.Size)
			f.Path, f.Mode = []byte(path), map[string]uint32{"d": typeDir | 0o755, "f": typePlain | 0o644, "l": typeLink | 0o777}[kind]
			if !yield(f, nil) {
				return
			}
		}
	}
}

func (g treeGuest) PackFiles(_ context.Context, paths iter.Seq[string], read func(io.Reader) error) error {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for path := range paths {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Size: 1, Format: tar.FormatPAX}); err != nil {
			return err
		}
		_, _ = w.Write([]byte("x"))
	}
	_ = w.Close()
	return read(&b)
}

func TestLayerHasWhatDiffers(t *testing.T) {
	for _, tc := range []struct {
		name       string
		image, now []string
		want       string // the names in the layer; those of package tar begin with a slash where they were inspected
		refused    string
	}{
		{"nothing", []string{"d a", "f a/1 1", "l b 2"}, []string{"d a", "f a/1 1", "l b 2"}, "", ""},
		{"a new file, with the directories above it", []string{"d a", "d a/b"}, []string{"d a", "d a/b", "f a/b/1 1!"}, "/a /a/b /a/b/1", ""},
		{"a directory that has changed itself comes once", []string{"d a", "d a/b"}, []string{"d a!", "d a/b!", "f a/b/1 1!"}, "/a /a/b /a/b/1", ""},
		{"a second file below a directory", nil, []string{"d a!", "d a/b!", "f a/b/1 1!", "d a/c", "f a/c/2 2!", "f d 1!"}, "/a /a/b /a/b/1 /a/c /a/c/2 /d", ""},
		{"a file that was changed", []string{"f a 1", "f b 1"}, []string{"f a 1!", "f b 1"}, "/a", ""},
		{"files that a renamed directory has brought", []string{"d a", "f a/1 1", "d b", "f b/1 2"}, []string{"d b!", "f b/1 1"}, "/b /b/1 .wh.a", ""},
		{"a file that is gone", []string{"d a", "f a/1 1", "f a/2 1"}, []string{"d a", "f a/2 1"}, "/a a/.wh.1", ""},
		{"a directory that is gone", []string{"d a", "d a/b", "f a/b/1 1", "f a/c 1"}, []string{"d a", "f a/c 1"}, "/a a/.wh.b", ""},
		{"names that sort before a slash", []string{"d a", "f a/1 1", "f a.b 1", "f a0 1"}, []string{"f a.b 1", "f a0 1"}, ".wh.a", ""},
		{"a directory that became a file", []string{"d a", "f a/1 1", "d a/b", "f a/b/2 1", "f c 1"}, []string{"f a 3!", "f c 1"}, "/a", ""},
		{"a directory that became a link", []string{"d a", "f a/1 1"}, []string{"l a 3!"}, "/a", ""},
		{"a file that became a directory", []string{"f a 1"}, []string{"d a!", "f a/1 1!"}, "/a /a/1", ""},
		{"a name that would remove another file", []string{"d a", "f a/1 1"}, []string{"d a", "f a/.wh.1 1!", "f a/1 1"}, "", "removes another file"},
		{"more than a layer can have", nil, []string{fmt.Sprintf("f a %d!", int64(maxLayer)), "f b 1!"}, "", "more than 64 GiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var l layer
			now := treeGuest{lines: tc.now}
			err := compare(t.Context(), treeGuest{lines: tc.image}, now, l.visit)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("error %v, want %q", err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var inspected []string
			var archive bytes.Buffer
			err = l.write(t.Context(), now, &archive, func(h *tar.Header, content io.Reader) error {
				inspected = append(inspected, h.Name)
				_, err := content.Read(nil) // it need not be read
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			names := inspected
			files := tar.NewReader(&archive)
			for n := 0; ; n++ {
				h, err := files.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if n < len(inspected) {
					if content, err := io.ReadAll(files); err != nil || string(content) != "x" || "/"+h.Name != inspected[n] {
						t.Errorf("%s has %q, %v", h.Name, content, err)
					}
					continue
				}
				names = append(names, h.Name)
			}
			if got := strings.Join(names, " "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestListThatBreaksIsAnError(t *testing.T) {
	broken := errors.New("broken")
	for _, which := range []string{"the image's", "the environment's"} {
		t.Run(which, func(t *testing.T) {
			good, bad := inContainer(treeGuest{lines: []string{"d a", "d b"}}), inContainer(brokenGuest{err: broken})
			if which == "the image's" {
				good, bad = bad, good
			}
			if err := compare(t.Context(), good, bad, func(_, _ *initwire.File) error { return nil }); !errors.Is(err, broken) {
				t.Errorf("error %v", err)
			}
		})
	}
}

type brokenGuest struct {
	inContainer
	err error
}

func (g brokenGuest) Files(context.Context) iter.Seq2[initwire.File, error] {
	return func(yield func(initwire.File, error) bool) {
		if yield(initwire.File{Path: []byte("a"), Mode: typeDir}, nil) {
			yield(initwire.File{}, g.err)
		}
	}
}

func TestNoLayersWithoutARegistry(t *testing.T) {
	p := newFakeAPI(t).provider(t, nil)
	_, err := p.LockSnapshot(t.Context(), "0123456789abcdef")
	_, _, finding := p.FindSnapshot(t.Context(), "0123456789abcdef")
	env, creating := p.CreateEnvironment(t.Context(), fakeOptions())
	if creating != nil {
		t.Fatal(creating)
	}
	_, keeping := environment.Snapshot(t.Context(), env, environment.SnapshotOptions{Key: "0123456789abcdef"})
	for _, err := range []error{err, finding, keeping} {
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "provider_config.registry is not set") {
			t.Errorf("error %v", err)
		}
	}
}

// The pod with an image's files asks for little, for no device, and for the node that has the
// image; and it goes.
func TestPodOfTheImage(t *testing.T) {
	f := newFakeAPI(t)
	p := f.provider(t, map[string]any{"pod": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
		"name": "main", "resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": 1}},
	}}}}})
	env, err := p.CreateEnvironment(t.Context(), fakeOptions())
	if err != nil {
		t.Fatal(err)
	}
	e, stop := env.(*podEnv), errors.New("stop")
	err = e.withOriginal(t.Context(), func(original inContainer) error {
		name := original.(*podEnv).name
		f.mu.Lock()
		defer f.mu.Unlock()
		pod := f.pods[name]
		main := pod.Spec.Containers[0]
		node := pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Preference.MatchFields[0].Values[0]
		if name == e.name || main.Image != "image" || main.Resources.Limits.Cpu().MilliValue() != 250 || len(main.Resources.Limits) != 2 || node != f.pods[e.name].Spec.NodeName {
			t.Errorf("pod %+v", pod.Spec)
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	if left := f.names(); !slices.Equal(left, []string{e.name}) {
		t.Errorf("left: %v", left)
	}
}
