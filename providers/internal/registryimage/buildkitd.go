package registryimage

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/moby/buildkit/client"
	_ "github.com/moby/buildkit/client/connhelper/dockercontainer" // docker-container://
	_ "github.com/moby/buildkit/client/connhelper/kubepod"         // kube-pod://
	"github.com/moby/buildkit/util/grpcerrors"
	"google.golang.org/grpc/codes"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildkit"
)

// buildkitTimeout bounds the first contact with a buildkitd. One in a pod is reached by kubectl.
const buildkitTimeout = 20 * time.Second

// CheckBuildKit validates the settings of a BuildKit, without connecting.
func CheckBuildKit(b BuildKit) error {
	at, err := url.Parse(b.Address)
	if err != nil {
		return err
	}
	files := b.CACert != "" || b.Cert != "" || b.Key != "" || b.ServerName != ""
	switch at.Scheme {
	case "tcp":
		if at.Port() == "" {
			return errors.New("tcp:// needs HOST:PORT")
		}
		if (b.Cert == "") != (b.Key == "") {
			return errors.New("a certificate needs its key, and a key its certificate")
		}
		return nil
	case "unix", "docker-container", "kube-pod":
		if files {
			return fmt.Errorf("certificates are for tcp://, not for %s://", at.Scheme)
		}
		return nil
	}
	return fmt.Errorf("%q: want tcp://HOST:PORT, unix://PATH, docker-container://NAME or kube-pod://NAME", b.Address)
}

// buildkitd is the builder BuildKitDaemon.
type buildkitd struct {
	images *Images
	at     BuildKit
}

func newBuildKit(i *Images, at BuildKit) Builder { return &buildkitd{images: i, at: at} }

// Name implements Builder.
func (*buildkitd) Name() string { return BuildKitDaemon }

// Kind implements Builder.
func (*buildkitd) Kind() string { return "" }

// Close implements Builder. There is a connection for each build.
func (*buildkitd) Close() error { return nil }

// connect returns a client. Nothing is sent yet.
func (b *buildkitd) connect(ctx context.Context) (*client.Client, error) {
	var opts []client.ClientOpt
	if b.at.CACert != "" || b.at.Cert != "" || b.at.ServerName != "" {
		if b.at.CACert == "" {
			opts = append(opts, client.WithServerConfigSystem(b.at.ServerName))
		} else {
			opts = append(opts, client.WithServerConfig(b.at.ServerName, b.at.CACert))
		}
	}
	if b.at.Cert != "" {
		opts = append(opts, client.WithCredentials(b.at.Cert, b.at.Key))
	}
	return client.New(ctx, b.at.Address, opts...)
}

// Check implements Builder.
func (b *buildkitd) Check(ctx context.Context, platform string) (string, error) {
	if b.at.Address == "" {
		return "", errors.New("environment.provider_config.buildkit names none")
	}
	ctx, cancel := context.WithTimeout(ctx, buildkitTimeout)
	defer cancel()
	c, err := b.connect(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: %w", b.at.Address, err)
	}
	defer c.Close()
	workers, err := c.ListWorkers(ctx)
	if err != nil {
		return "", fmt.Errorf("%s does not answer: %w", b.at.Address, err)
	}
	var all []string
	for _, w := range workers {
		for _, p := range w.Platforms {
			text := p.OS + "/" + p.Architecture
			if p.OS == b.images.platform.OS && p.Architecture == b.images.platform.Architecture {
				return "at " + b.at.Address, nil
			}
			all = append(all, text)
		}
	}
	return "", fmt.Errorf("%s builds for %s, and %s is wanted", b.at.Address, strings.Join(all, ", "), platform)
}

// Build implements Builder.
func (b *buildkitd) Build(ctx context.Context, req Request) (string, error) {
	doing := "build " + req.Target
	c, err := b.connect(ctx)
	if err != nil {
		return "", &environment.Error{Kind: environment.KindUnavailable, Transient: true, Err: fmt.Errorf("%s: connect to %s: %w", doing, b.at.Address, err)}
	}
	defer c.Close()
	attrs := map[string]string{"name": req.Target, "push": "true", "oci-mediatypes": "true"}
	if req.PlainHTTP {
		attrs["registry.insecure"] = "true"
	}
	out := buildkit.Lines{Progress: req.Progress}
	answer, err := buildkit.Solve(ctx, c, buildkit.Build{
		Definition: req.Definition, Args: req.Args, Labels: map[string]string{environment.LabelJob: "build"}, Platform: req.Platform,
		NoCache: req.NoCache, Digest: req.Digest, Export: client.ExportEntry{Type: client.ExporterImage, Attrs: attrs},
	}, &out)
	if err != nil {
		return "", b.failed(ctx, doing, req, &out, err)
	}
	return answer["containerimage.digest"], nil
}

// failed returns the error of a build.
func (b *buildkitd) failed(ctx context.Context, doing string, req Request, out *buildkit.Lines, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	if grpcerrors.Code(err) == codes.Unavailable {
		return &environment.Error{
			Kind: environment.KindUnavailable, Transient: true, Output: out.Tail(), Err: fmt.Errorf("%s: the connection to %s was lost: %w", doing, b.at.Address, err),
		}
	}
	return Failed(ctx, doing, req, out, err)
}

// Failed returns the error of a build with one of Docker's builders that was not the builder's own
// fault: of the Dockerfile, a base image, or the registry.
func Failed(ctx context.Context, doing string, req Request, out *buildkit.Lines, err error) error {
	e := &environment.Error{Kind: environment.KindBuild, Hint: buildkit.HintOf(req.Definition.Dockerfile, err)}
	if out.OfStep() {
		e.Output = out.Tail()
	}
	exports := strings.HasPrefix(out.Step(), "exporting to ") || strings.HasPrefix(out.Step(), "pushing ")
	line := buildkit.FailedLine(req.Definition.Dockerfile, out, err)
	if line > 0 {
		doing += fmt.Sprintf(": Dockerfile:%d: %s", line, buildkit.InstructionAt(req.Definition.Dockerfile, line))
	}
	if code := buildkit.ExitCode(err); code != 0 {
		e.Output = out.Tail()
		e.Err = fmt.Errorf("%s: %w", doing, err)
		if line > 0 { // the builder's message repeats the command, however long
			e.Err = fmt.Errorf("%s: exit code %d", doing, code)
		}
		return e
	}
	e.Err = fmt.Errorf("%s: %w", doing, err)
	// Builders report the reasons of registries in words only; so those are asked once more, in a
	// way that has a status.
	if reason := req.Explain(ctx, buildkit.BaseImages(req.Definition.Dockerfile, req.Args)); reason != nil {
		known := new(environment.Error)
		if errors.As(reason, &known) {
			e.Kind, e.Transient, e.Hint = known.Kind, known.Transient, known.Hint
			e.Err = fmt.Errorf("%s: %w (%w)", doing, known.Err, err)
		}
		return e
	}
	if exports {
		e.Kind, e.Transient = environment.KindPull, true
		e.Hint = "the registry takes images from here now: the builder cannot reach it by this name, or it failed meanwhile"
	}
	return e
}
