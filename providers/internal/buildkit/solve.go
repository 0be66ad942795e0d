package buildkit

import (
	"context"
	"errors"
	"strings"

	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/solver/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/tonistiigi/fsutil"

	"github.com/org/rollout-action/providers/internal/buildcontext"
)

// Build is an image to build.
type Build struct {
	Definition buildcontext.Definition
	// Dockerfile, if not nil, is used instead of the definition's.
	Dockerfile []byte
	Args       map[string]string
	Labels     map[string]string
	Platform   string // empty: the builder's
	NoCache    bool
	// Digest identifies the definition with the arguments and the platform.
	Digest string
	Export client.ExportEntry
}

// Solve builds an image with BuildKit's frontend for Dockerfiles and the user's logins to
// registries. It returns what the exporter says of the image.
func Solve(ctx context.Context, builder *client.Client, b Build, out *Lines) (map[string]string, error) {
	attrs := map[string]string{"filename": buildcontext.Dockerfile}
	for key, value := range b.Args {
		attrs["build-arg:"+key] = value
	}
	for key, value := range b.Labels {
		attrs["label:"+key] = value
	}
	if b.NoCache {
		attrs["no-cache"] = ""
	}
	if b.Platform != "" {
		attrs["platform"] = b.Platform
	}
	dockerfile := b.Definition.Dockerfile
	if b.Dockerfile != nil {
		dockerfile = b.Dockerfile
	}
	status := make(chan *client.SolveStatus)
	shown := make(chan map[digest.Digest]*buildStep, 1)
	go func() { shown <- showStatus(status, out) }()
	response, err := builder.Solve(ctx, nil, client.SolveOpt{
		Frontend:      "dockerfile.v0",
		FrontendAttrs: attrs,
		LocalMounts: map[string]fsutil.FS{
			"context":    b.Definition.Files,
			"dockerfile": b.Definition.Frontend(dockerfile),
		},
		// Without a distinct key, a build takes the files of any other for its own if only their
		// names, sizes and times agree: those of another task.
		SharedKey: b.Digest,
		Exports:   []client.ExportEntry{b.Export},
		Session:   []session.Attachable{logins{}},
	}, status)
	steps := <-shown
	if step := failedStep(steps, err); step != nil {
		out.failed, out.step = &step.Lines, step.name
	}
	if err != nil {
		return nil, err
	}
	return response.ExporterResponse, nil
}

// buildStep is a step of a build with its output.
type buildStep struct {
	Lines
	name, err string // if it failed
}

// failedStep returns the step of which a build has the error, nil if that is not known. Engines
// before 23 say it in words only, which are the step's own.
func failedStep(steps map[digest.Digest]*buildStep, err error) *buildStep {
	if err == nil {
		return nil
	}
	if vertex := new(errdefs.VertexError); errors.As(err, &vertex) && steps[digest.Digest(vertex.Digest)] != nil {
		return steps[digest.Digest(vertex.Digest)]
	}
	for _, step := range steps {
		if step.err != "" && strings.Contains(err.Error(), step.err) {
			return step
		}
	}
	return nil
}

// showStatus turns BuildKit's events into lines: each step when it begins, and its output. It
// returns the steps.
func showStatus(status <-chan *client.SolveStatus, out *Lines) map[digest.Digest]*buildStep {
	begun := map[digest.Digest]bool{}
	partial := map[digest.Digest]*buildStep{}
	find := func(vertex digest.Digest) *buildStep {
		step := partial[vertex]
		if step == nil { // steps run side by side
			step = &buildStep{Lines: Lines{Progress: out.Line}}
			partial[vertex] = step
		}
		return step
	}
	for s := range status {
		for _, v := range s.Vertexes {
			if v.Error != "" {
				step := find(v.Digest)
				step.name, step.err = v.Name, v.Error
			}
			if v.Started == nil || begun[v.Digest] {
				continue
			}
			begun[v.Digest] = true
			name := v.Name
			if v.Cached {
				name += " (cached)"
			}
			out.Line(name)
		}
		for _, l := range s.Logs {
			find(l.Vertex).Text(string(l.Data))
		}
	}
	for _, step := range partial {
		step.End()
	}
	return partial
}
