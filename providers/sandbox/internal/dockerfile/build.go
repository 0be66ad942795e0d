package dockerfile

import (
	"io/fs"
	"net/http"
)

// Options say what is built.
type Options struct {
	// Context is the folder with the Dockerfile, and .dockerignore or Dockerfile.dockerignore. A link in it is a link, never followed out of it.
	Context fs.FS
	// Args are build arguments. One that no ARG declares has no effect, apart from proxies.
	Args map[string]string
	// Fresh makes every layer again.
	Fresh bool
	// Progress gets lines for people, without line ends; nil for none. Control characters in a command's output are left as they are.
	Progress func(line string)
	// Platform is "linux/amd64" or the like; empty is linux on this machine's architecture.
	Platform string
	// Target is the stage to build, by name or number; empty is the last.
	Target string
	// HTTP gets what ADD downloads; nil is http.DefaultClient.
	HTTP *http.Client
}

// Result is what was built.
type Result struct {
	// Image is the target stage's; its Env has no build arguments.
	Image Image
	// ID is a digest ("sha256:…") of what went into the image and of its configuration: the same content gives the same ID,
	// whether its layers were stored, made or made again.
	ID string
	// Notes say what had no effect or was done in another way, one sentence each, with its line: "Dockerfile:7: …".
	Notes []string
}
