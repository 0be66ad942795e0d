package compose

import (
	"io/fs"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
)

// File is a docker-compose.yaml.
type File struct {
	// Services are the services without their images, and without what belongs to a trial.
	Services environment.Services
	// Images has the image of each service, by its name. Main has none if the file says nothing
	// about it: then it is the task's.
	Images map[string]Image
	// Special is the first setting of main that only containers of an engine have; "": none.
	Special string
}

// Image is the image of a service: to build, or to pull if Build is nil.
type Image struct {
	Ref   string
	Build *Build
}

// Build describes how an image is built. Its paths are below the task's directory.
type Build struct {
	Context    string
	Dockerfile string
	Target     string // the stage of the Dockerfile; "": the last one
	Args       map[string]string
}

// MainImage returns the image that the file gives main; the zero value if it gives none, or f is
// nil.
func (f *File) MainImage() Image {
	if f == nil {
		return Image{}
	}
	return f.Images[environment.MainService]
}

// Unpinned reports whether an image is pulled by a name that may get another content. f may be nil.
func (f *File) Unpinned() bool {
	if f == nil {
		return false
	}
	for _, i := range f.Images {
		if i.Build == nil && i.Ref != "" && !strings.Contains(i.Ref, "@sha256:") {
			return true
		}
	}
	return false
}

// Source is the file and its surroundings.
type Source struct {
	FS     fs.FS  // the task's directory
	Dir    string // that of the file, below it: "environment"
	Lookup func(name string) (value string, ok bool)
	// Main is the name in the file of the service in which the agent works; "": main. If it is
	// given, the caller reads what every provider has of that service: its image, user, directory,
	// variables and the files of the task in its volumes. File has the rest of it.
	Main string
	// Prebuilt says that the task names an image for main, so that none is built for it.
	Prebuilt bool
}

// Problem is a problem of the file.
type Problem struct {
	Line, Column  int // 0: unknown
	Message, Hint string
	Warning       bool
}

// maxSize bounds the file: the largest of 12,800 tasks has 16 KiB.
const maxSize = 256 << 10
