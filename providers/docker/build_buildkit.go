package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	dockerclient "github.com/docker/docker/client"
	dockerbuildkit "github.com/docker/docker/client/buildkit"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/solver/errdefs"
	"github.com/moby/buildkit/util/grpcerrors"
	"github.com/opencontainers/go-digest"
	"github.com/tonistiigi/fsutil"
	"google.golang.org/grpc/codes"

	"github.com/org/rollout-action/providers/internal/buildcontext"
)

// hasBuildKit finds out, once, whether the engine has BuildKit. What an engine announces is only
// what the docker command prefers by default. An engine that fails has not answered: the error is transient, and nothing is remembered.
func (p *Provider) hasBuildKit(ctx context.Context) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.buildkit != nil {
		return *p.buildkit, nil
	}
	status, err := p.askForBuildKit(ctx)
	if err != nil {
		return false, err
	}
	passing := status >= http.StatusInternalServerError && status != http.StatusNotImplemented
	if passing || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
		return false, fmt.Errorf("ask the engine whether it has BuildKit: it answers %d (%s): %w", status, http.StatusText(status), cerrdefs.ErrUnavailable)
	}
	found := status == http.StatusSwitchingProtocols
	p.buildkit = &found
	return found, nil
}

// askForBuildKit returns the status with which the engine answers who wants to speak with BuildKit. The client's own DialHijack tells it in
// words only, and does not obey ctx while it waits.
func (p *Provider) askForBuildKit(ctx context.Context) (status int, err error) {
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
	}()
	conn, err := p.api.Dialer()(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+dockerclient.DummyHost+"/grpc", http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "h2c")
	if err := req.Write(conn); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, nil
}

// buildKit builds with BuildKit, which the engine serves over its own connection.
func (p *Provider) buildKit(ctx context.Context, req buildRequest, out *lines) error {
	builder, err := client.New(ctx, "", dockerbuildkit.ClientOpts(p.api)...)
	if err != nil {
		return err
	}
	defer builder.Close()
	attrs := map[string]string{"filename": buildcontext.Dockerfile}
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
	shown := make(chan map[digest.Digest]*buildStep, 1)
	go func() { shown <- showStatus(status, out) }()
	_, err = builder.Solve(ctx, nil, client.SolveOpt{
		Frontend:      "dockerfile.v0",
		FrontendAttrs: attrs,
		LocalMounts: map[string]fsutil.FS{
			"context":    req.content.Files,
			"dockerfile": req.content.frontend(p.reachable(ctx, req.content.dockerfile, out)),
		},
		// Without a key of its own, a build takes the files of any other for its own if only their
		// names, sizes and times agree: those of another task.
		SharedKey: req.digest,
		Exports:   []client.ExportEntry{{Type: "moby", Attrs: map[string]string{"name": req.tag}}},
		Session:   []session.Attachable{buildAuth{}},
	}, status)
	steps := <-shown
	if step := failedStep(steps, err); step != nil {
		out.failed, out.step = &step.lines, step.name
	}
	if grpcerrors.Code(err) == codes.Unavailable {
		return errors.Join(err, errLost)
	}
	return err
}

// reachable returns the Dockerfile without its "# syntax=" line if the image that the line names cannot be
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

// buildStep is a step of a build, and what it printed.
type buildStep struct {
	lines
	name, err string // if it failed
}

// failedStep returns the step of which a build has the error, nil if that is not known. Engines before 23 say it in words only, which
// are the step's own.
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

// showStatus turns BuildKit's events into lines: each step when it begins, and its output. It returns the steps.
func showStatus(status <-chan *client.SolveStatus, out *lines) map[digest.Digest]*buildStep {
	begun := map[digest.Digest]bool{}
	partial := map[digest.Digest]*buildStep{}
	find := func(vertex digest.Digest) *buildStep {
		step := partial[vertex]
		if step == nil { // steps run side by side
			step = &buildStep{lines: lines{progress: out.line}}
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
			out.line(name)
		}
		for _, l := range s.Logs {
			find(l.Vertex).text(string(l.Data))
		}
	}
	for _, step := range partial {
		step.end()
	}
	return partial
}
