package docker

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strconv"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/pkg/jsonmessage"
	gateway "github.com/moby/buildkit/frontend/gateway/pb"
	"github.com/moby/buildkit/solver/errdefs"

	"github.com/org/rollout-action/internal/environment"
)

// buildClassic builds with the builder that every engine has.
func (p *Provider) buildClassic(ctx context.Context, req buildRequest, out *lines) error {
	reader, writer := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := req.content.tar(ctx, writer)
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
	out.steps = true
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

// baseCredentials returns those for the registries of the base images.
func baseCredentials(ctx context.Context, req buildRequest) map[string]registry.AuthConfig {
	all := map[string]registry.AuthConfig{}
	for _, ref := range baseImages(req.content.dockerfile, req.args) {
		config, err := credentials(ctx, ref)
		if err == nil && encoded(config) != "" {
			all[config.ServerAddress] = config
		}
	}
	return all
}

// isCommandFailure reports whether a RUN ended with an exit code, which nothing but a change of the
// Dockerfile mends.
func isCommandFailure(err error) bool { return exitCode(err) != 0 }

// exitCode returns the exit code with which a RUN failed; 0 if something else did.
func exitCode(err error) int {
	var classic *jsonmessage.JSONError
	if errors.As(err, &classic) && classic.Code != 0 {
		return classic.Code
	}
	var exit *gateway.ExitError
	if errors.As(err, &exit) {
		return int(exit.ExitCode)
	}
	if typed := new(errdefs.VertexError); err != nil && !errors.As(err, &typed) {
		if said := saidCode.FindStringSubmatch(err.Error()); said != nil {
			code, _ := strconv.Atoi(said[1]) // digits
			return code
		}
	}
	return 0
}

// saidCode is how BuildKit ends its error where that has no type (engines before 23).
var saidCode = regexp.MustCompile(`: exit code: ([0-9]{1,3})$`)
