package fake

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"

	"github.com/org/rollout-action/internal/environment"
)

// World is what providers have in common, as those of a real kind have an engine in common: images
// and environments. It lives as long as the process.
type World struct {
	mu           sync.Mutex
	made         int // environments so far
	kept         int // images so far
	environments map[string]*Environment
	images       map[string]*image
	builds       map[string]chan struct{} // closed when the build of that reference has ended
	locks        map[string]chan struct{} // of snapshots' keys; closed when they are free
	hosts        map[string]string        // of its network: what they say, by host:port
}

// NewWorld is a world with nothing in it.
func NewWorld() *World {
	return &World{
		environments: map[string]*Environment{}, images: map[string]*image{},
		builds: map[string]chan struct{}{}, locks: map[string]chan struct{}{}, hosts: map[string]string{},
	}
}

// image is a tree of files and how commands run in it.
type image struct {
	root    *node // frozen: cloned, never changed
	env     map[string]string
	workDir string
	user    string

	entrypoint  []string
	shell       []string
	healthcheck *dockerspec.HealthcheckConfig

	id    string    // of this build or snapshot
	from  *image    // what it was made from; nil for baseImage
	about string    // for people
	used  time.Time // last
}

// baseImage is the image that every reference means that was not built here.
var baseImage = &image{root: baseTree().freeze(), env: map[string]string{"PATH": defaultPath}, workDir: "/"}

// baseTree is a root with little in it.
func baseTree() *node {
	root := newDir(0o755)
	const folders = "bin dev etc home mnt opt proc root run srv tmp usr/bin usr/local/bin var/log var/tmp"
	for path := range strings.FieldsSeq(folders) {
		at := root
		for name := range strings.SplitSeq(path, "/") {
			if at.children[name] == nil {
				at.children[name] = newDir(0o755)
			}
			at = at.children[name]
		}
	}
	root.children["tmp"].mode |= 0o777
	root.children["var"].children["tmp"].mode |= 0o777
	root.children["root"].mode = newDir(0o700).mode
	root.children["dev"].children = map[string]*node{
		"null": newDevice(1, 3), "zero": newDevice(1, 5), "random": newDevice(1, 8), "urandom": newDevice(1, 9),
	}
	root.children["etc"].children = map[string]*node{
		"hostname":   newFile(0o644, "fake\n"),
		"hosts":      newFile(0o644, "127.0.0.1 localhost\n"),
		"os-release": newFile(0o644, "ID=fake\nPRETTY_NAME=\"The fake environment\"\n"),
		"passwd": newFile(0o644, "root:x:0:0:root:/root:/bin/bash\n"+
			"www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"),
		"group": newFile(0o644, "root:x:0:\nwww-data:x:33:\nnogroup:x:65534:\n"),
	}
	root.children["bin"].children = map[string]*node{"bash": newFile(0o755, program), "sh": newFile(0o755, program)}
	return root
}

// Lose destroys an environment as an accident would: nobody is told.
func (w *World) Lose(id string) {
	w.mu.Lock()
	env := w.environments[id]
	delete(w.environments, id)
	w.mu.Unlock()
	if env != nil {
		env.end(gone)
	}
}

// Forget removes an image that was built.
func (w *World) Forget(ref string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.images, ref)
}

// register gives an environment its id.
func (w *World) register(e *Environment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made++
	e.id = fmt.Sprintf("fake-%06d", w.made)
	w.environments[e.id] = e
}

func (w *World) find(id string) *Environment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.environments[id]
}

func (w *World) remove(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.environments, id)
}

// list is all environments by id.
func (w *World) list() []environment.Listed {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []environment.Listed
	for _, id := range slices.Sorted(maps.Keys(w.environments)) {
		e := w.environments[id]
		all = append(all, environment.Listed{ID: id, Labels: environment.ParseLabels(e.labels), Kept: e.isKept()})
	}
	return all
}
