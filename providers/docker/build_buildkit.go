package docker

import (
	"context"
	"errors"
	"fmt"

	dockerbuildkit "github.com/docker/docker/client/buildkit"
	"github.com/moby/buildkit/client"
	gateway "github.com/moby/buildkit/frontend/gateway/pb"
	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/util/grpcerrors"
	"github.com/opencontainers/go-digest"
	"github.com/tonistiigi/fsutil"
	"google.golang.org/grpc/codes"
)

// hasBuildKit finds out, once, whether the engine has BuildKit. What an engine announces is only
// what the docker command prefers by default.
func (p *Provider) hasBuildKit(ctx context.Context) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.buildkit != nil {
		return *p.buildkit, nil
	}
	conn, err := p.api.DialHijack(ctx, "/grpc", "h2c", nil)
	if err != nil && (isConnection(err) || ctx.Err() != nil) {
		return false, err
	}
	found := err == nil
	if found {
		conn.Close()
	}
	p.buildkit = &found
	return found, nil
}

// buildKit builds with BuildKit, which the engine serves over its own connection.
func (p *Provider) buildKit(ctx context.Context, req buildRequest, out *lines) error {
	builder, err := client.New(ctx, "", dockerbuildkit.ClientOpts(p.api)...)
	if err != nil {
		return err
	}
	defer builder.Close()
	attrs := map[string]string{"filename": dockerfileName}
	for key, value := range req.args {
		attrs["build-arg:"+key] = value
	}
	for key, value := range imageLabels() {
		attrs["label:"+key] = value
	}
	if req.noCache {
		attrs["no-cache"] = ""
	}
	status := make(chan *client.SolveStatus)
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		showStatus(status, out)
	}()
	_, err = builder.Solve(ctx, nil, client.SolveOpt{
		Frontend:      "dockerfile.v0",
		FrontendAttrs: attrs,
		LocalMounts: map[string]fsutil.FS{
			"context":    req.content.files,
			"dockerfile": req.content.frontend(p.reachable(ctx, req.content.dockerfile, out)),
		},
		// Without a key of its own, a build takes the files of any other for its own if only their
		// names, sizes and times agree: those of another task.
		SharedKey: req.digest,
		Exports:   []client.ExportEntry{{Type: "moby", Attrs: map[string]string{"name": req.tag}}},
		Session:   []session.Attachable{buildAuth{}},
	}, status)
	<-shown
	if grpcerrors.Code(err) == codes.Unavailable {
		return errors.Join(err, errLost)
	}
	return err
}

// reachable is the Dockerfile without its "# syntax=" line if the image that the line names cannot be
// had: the build would fail for nothing but that.
func (p *Provider) reachable(ctx context.Context, dockerfile []byte, out *lines) []byte {
	stripped, ref := withoutSyntax(dockerfile)
	if ref == "" {
		return dockerfile
	}
	if present, err := p.hasImage(ctx, ref); err == nil && present {
		return dockerfile
	}
	ctx, cancel := context.WithTimeout(ctx, registryPatience)
	defer cancel()
	if err := p.askRegistry(ctx, ref); err == nil {
		return dockerfile
	}
	out.line(fmt.Sprintf("the Dockerfile's syntax image %s cannot be reached: building with the engine's own Dockerfile syntax", ref))
	return stripped
}

// showStatus turns BuildKit's events into lines: each step when it begins, and its output.
func showStatus(status <-chan *client.SolveStatus, out *lines) {
	begun := map[digest.Digest]bool{}
	partial := map[digest.Digest]*lines{}
	for s := range status {
		for _, v := range s.Vertexes {
			if v.Started == nil || begun[v.Digest] {
				continue
			}
			begun[v.Digest] = true
			name := v.Name
			if v.Cached {
				name += " (cached)"
			}
			out.line(name)
		}
		for _, l := range s.Logs {
			step := partial[l.Vertex]
			if step == nil { // steps run side by side
				step = &lines{progress: out.line}
				partial[l.Vertex] = step
			}
			step.text(string(l.Data))
		}
	}
	for _, step := range partial {
		step.end()
	}
}

// isExit reports whether BuildKit says that a command ended with an exit code.
func isExit(err error) bool {
	var exit *gateway.ExitError
	return errors.As(err, &exit)
}
