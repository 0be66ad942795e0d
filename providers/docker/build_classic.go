package docker

import (
	"context"
	"errors"
	"io"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/registry"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildkit"
)

// buildClassic builds with the classic builder, which every engine has.
func (p *Provider) buildClassic(ctx context.Context, req buildRequest, out *buildkit.Lines) error {
	reader, writer := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := req.content.Tar(ctx, writer)
		writer.CloseWithError(err)
		sent <- err
	}()
	args := map[string]*string{}
	for key, value := range req.args {
		args[key] = &value
	}
	response, err := p.api.ImageBuild(ctx, reader, build.ImageBuildOptions{
		Version:     build.BuilderV1,
		Tags:        []string{req.tag},
		BuildArgs:   args,
		NoCache:     req.noCache,
		Remove:      true,
		ForceRemove: true,
		AuthConfigs: baseCredentials(ctx, req),
		Labels:      imageLabels(),
	})
	out.Steps = true
	if err == nil {
		err = readMessages(response.Body, out)
		response.Body.Close()
	}
	reader.Close()
	// As with put: the engine's error may follow from the source's, or the other way round.
	if source := <-sent; source != nil && !errors.Is(source, io.ErrClosedPipe) {
		return source
	}
	return err
}

// imageLabels mark an image as made by Rollout.
func imageLabels() map[string]string {
	return map[string]string{environment.LabelJob: "build"}
}

// baseCredentials returns the credentials for the registries of the base images.
func baseCredentials(ctx context.Context, req buildRequest) map[string]registry.AuthConfig {
	all := map[string]registry.AuthConfig{}
	for _, ref := range buildkit.BaseImages(req.content.Dockerfile, req.args) {
		config, err := credentials(ctx, ref)
		if err == nil && encoded(config) != "" {
			all[config.ServerAddress] = config
		}
	}
	return all
}

// isCommandFailure reports whether a RUN ended with an exit code; only a change of the Dockerfile
// helps.
func isCommandFailure(err error) bool { return buildkit.ExitCode(err) != 0 }
