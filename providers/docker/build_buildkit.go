package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"

	cerrdefs "github.com/containerd/errdefs"
	dockerclient "github.com/docker/docker/client"
	dockerbuildkit "github.com/docker/docker/client/buildkit"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/grpcerrors"
	"google.golang.org/grpc/codes"

	"github.com/org/rollout-action/providers/internal/buildkit"
)

// hasBuildKit asks the engine, once, whether it has BuildKit. The builder that an engine announces
// is only the default of the docker command. If the engine fails to answer, the error is transient
// and no result is kept.
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

// askForBuildKit returns the status of the engine's answer to a request to speak with BuildKit. The
// client's own DialHijack reports it only as text, and does not obey ctx while it waits.
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
func (p *Provider) buildKit(ctx context.Context, req buildRequest, out *buildkit.Lines) error {
	builder, err := client.New(ctx, "", dockerbuildkit.ClientOpts(p.api)...)
	if err != nil {
		return err
	}
	defer builder.Close()
	_, err = buildkit.Solve(ctx, builder, buildkit.Build{
		Definition: req.content, Dockerfile: p.reachable(ctx, req.content.Dockerfile, out), Args: req.args, Labels: imageLabels(),
		Platform: req.platform, NoCache: req.noCache, Digest: req.digest,
		Export: client.ExportEntry{Type: "moby", Attrs: map[string]string{"name": req.tag}},
	}, out)
	if grpcerrors.Code(err) == codes.Unavailable {
		return errors.Join(err, errLost)
	}
	return err
}

// reachable returns the Dockerfile without its "# syntax=" line if the image that the line names
// cannot be pulled, because the build would fail for that reason alone.
func (p *Provider) reachable(ctx context.Context, dockerfile []byte, out *buildkit.Lines) []byte {
	stripped, ref := buildkit.WithoutSyntax(dockerfile)
	if ref == "" {
		return dockerfile
	}
	if present, err := p.hasImage(ctx, ref); err == nil && present {
		return dockerfile
	}
	ctx, cancel := context.WithTimeout(ctx, registryPatience)
	defer cancel()
	if _, err := p.askRegistry(ctx, ref); err == nil {
		return dockerfile
	}
	out.Line(fmt.Sprintf("the Dockerfile's syntax image %s cannot be reached: building with the engine's own Dockerfile syntax", ref))
	return stripped
}
