package kubernetes

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// compare calls visit with each file of an environment's image, read from the unchanged original,
// and each file of the environment now, in the order of initproc.ListFiles. before or after is nil
// if there is none; entries below a directory of the image that is no directory any more are left
// out.
func compare(ctx context.Context, original, now inContainer, visit func(before, after *initwire.File) error) error {
	nextBefore, stop := pull(original.Files(ctx))
	defer stop()
	nextAfter, stop := pull(now.Files(ctx))
	defer stop()
	before, err := nextBefore()
	if err != nil {
		return err
	}
	after, err := nextAfter()
	if err != nil {
		return err
	}
	gone := "" // a directory of the image
	for before != nil || after != nil {
		b, a := before, after
		switch order := pathOrder(before, after); {
		case order < 0:
			a = nil
		case order > 0:
			b = nil
		}
		if a != nil {
			if after, err = nextAfter(); err != nil {
				return err
			}
		}
		if b != nil {
			if before, err = nextBefore(); err != nil {
				return err
			}
			if gone != "" && strings.HasPrefix(string(b.Path), gone+"/") {
				if b = nil; a == nil {
					continue
				}
			} else if isDir(b) && !isDir(a) {
				gone = string(b.Path)
			}
		}
		if err := visit(b, a); err != nil {
			return err
		}
	}
	return nil
}

// pull returns a function that returns the next file of a list, or nil at its end.
func pull(list iter.Seq2[initwire.File, error]) (next func() (*initwire.File, error), stop func()) {
	from, stop := iter.Pull2(list)
	return func() (*initwire.File, error) {
		f, err, ok := from()
		if !ok || err != nil {
			return nil, err
		}
		return &f, nil
	}, stop
}

// pathOrder returns which of two files comes first: -1, 0 or 1. nil comes last.
func pathOrder(a, b *initwire.File) int {
	switch {
	case b == nil:
		return -1
	case a == nil:
		return 1
	}
	// A directory is directly before its entries.
	return strings.Compare(strings.ReplaceAll(string(a.Path), "/", "\x00"), strings.ReplaceAll(string(b.Path), "/", "\x00"))
}

// differs reports whether a file differs from that of the image. A changed file is Recent; the
// other differences come with a renamed directory. The times of directories and links depend on the
// node that unpacked the image.
func differs(before, after *initwire.File) bool {
	if before == nil || after == nil || after.Recent {
		return true
	}
	plain := kindOfFile(after) == 0
	return before.Mode != after.Mode || before.UID != after.UID || before.GID != after.GID || before.Device != after.Device ||
		!isDir(after) && before.Size != after.Size || plain && before.Modified != after.Modified
}

// The types of files in initwire.File.Mode. Source: inode(7).
const (
	typeMask   = 0o170000
	typeSocket = 0o140000
	typeLink   = 0o120000
	typePlain  = 0o100000
	typeBlock  = 0o060000
	typeDir    = 0o040000
	typeChar   = 0o020000
	typePipe   = 0o010000
)

// kindOfFile returns the type of a file in the form of package fs.
func kindOfFile(f *initwire.File) fs.FileMode {
	switch f.Mode & typeMask {
	case typePlain:
		return 0
	case typeDir:
		return fs.ModeDir
	case typeLink:
		return fs.ModeSymlink
	case typePipe:
		return fs.ModeNamedPipe
	case typeSocket:
		return fs.ModeSocket
	case typeChar:
		return fs.ModeDevice | fs.ModeCharDevice
	case typeBlock:
		return fs.ModeDevice
	}
	return fs.ModeIrregular
}

// isDir reports whether f is a directory; a nil f is not.
func isDir(f *initwire.File) bool { return f != nil && kindOfFile(f) == fs.ModeDir }

const (
	// maxChanges bounds the changed files that are remembered.
	maxChanges = 500_000
	// originalLifetime is how long the pod of an image stays if this process was killed. No list
	// takes so long.
	originalLifetime = time.Hour
)

var errManyChanges = errors.New("there are too many changed files")

// originalResources are enough to list and read files.
var originalResources = resources(environment.Limits{MilliCPUs: 250, Memory: 128 << 20})

// withOriginal calls use with a pod of the environment's image in which nothing runs. It holds the
// files that the environment began with, which cannot be read in the cluster otherwise. It runs on
// the environment's node, if there is room, because that node has the image.
func (e *podEnv) withOriginal(ctx context.Context, use func(original inContainer) error) error {
	helper, err := e.p.helperImage(ctx)
	if err != nil {
		return err
	}
	pod, err := e.p.buildPod(podSpec{
		name: podName(e.labels), namespace: e.namespace, image: e.image.Ref, helper: helper,
		opts: environment.CreateOptions{Labels: e.labels, Lifetime: originalLifetime},
	})
	if err != nil {
		return &environment.Error{Kind: environment.KindStart, Err: err}
	}
	pod.Labels[labelRole] = roleOriginal
	spec := &pod.Spec
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].Resources = originalResources // not the devices of provider_config.pod
		}
	}
	if now, known := e.p.watch.look(e.name); known && now.pod != nil {
		preferNode(spec, now.pod.Spec.NodeName)
	}
	original := &podEnv{p: e.p, name: pod.Name, namespace: pod.Namespace, labels: e.labels}
	err = e.p.start(ctx, pod, nil)
	if err == nil {
		original.inContainer, err = e.p.begin(ctx, original.dial, podinit.Options{Image: podinit.Image{Env: e.image.Env}, Explain: original.explain})
	}
	if err != nil {
		return e.p.discard(ctx, pod, err)
	}
	err = use(original)
	original.ended.Store(true)
	original.Close()
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	return errors.Join(err, e.p.remove(cleanup, pod.Namespace, pod.Name))
}

// preferNode lets a pod run on a node if it can.
func preferNode(spec *corev1.PodSpec, node string) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	preferred := &spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	*preferred = append(*preferred, corev1.PreferredSchedulingTerm{Weight: 100, Preference: corev1.NodeSelectorTerm{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}})
}

// parents returns the directories above a path, the top first.
func parents(of string) []string {
	var list []string
	for dir := path.Dir(of); dir != "."; dir = path.Dir(dir) {
		list = append([]string{dir}, list...)
	}
	return list
}
