package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/pkg/jsonmessage"
	"github.com/org/rollout-action/internal/environment"
)

// PullImage implements environment.Provider.
func (p *Provider) PullImage(ctx context.Context, ref string, progress func(string)) error {
	if _, err := p.api.ImageInspect(ctx, ref); err == nil {
		return nil
	}
	body, err := p.api.ImagePull(ctx, ref, image.PullOptions{})
	if err != nil {
		return failed(environment.KindPull, "pull "+ref, err)
	}
	defer body.Close()
	if err := readMessages(body, progress); err != nil {
		return failed(environment.KindPull, "pull "+ref, err)
	}
	return nil
}

// BuildImage implements environment.Provider.
func (p *Provider) BuildImage(ctx context.Context, opts environment.BuildOptions) (string, error) {
	var packed strings.Builder
	if err := environment.Pack(&packed, environment.Copy{Src: opts.Context, Dst: "/"}); err != nil {
		return "", &environment.Error{Kind: environment.KindBuild, Err: err}
	}
	sum := sha256.Sum256([]byte(packed.String()))
	tag := "rollout/" + strings.ToLower(opts.Name) + ":" + hex.EncodeToString(sum[:])[:16]
	if _, err := p.api.ImageInspect(ctx, tag); err == nil && !opts.NoCache {
		return tag, nil
	} else if err != nil && !cerrdefs.IsNotFound(err) {
		return "", failed(environment.KindBuild, "look for image "+tag, err)
	}
	args := map[string]*string{}
	for key, value := range opts.Args {
		args[key] = &value
	}
	response, err := p.api.ImageBuild(ctx, strings.NewReader(packed.String()), build.ImageBuildOptions{
		Tags: []string{tag}, NoCache: opts.NoCache, BuildArgs: args, Remove: true, ForceRemove: true,
		Labels: map[string]string{environment.LabelJob: ""},
	})
	if err != nil {
		return "", failed(environment.KindBuild, "build "+tag, err)
	}
	defer response.Body.Close()
	if err := readMessages(response.Body, opts.Progress); err != nil {
		return "", failed(environment.KindBuild, "build "+tag, err)
	}
	return tag, nil
}

func readMessages(r io.Reader, progress func(string)) error {
	decoder := json.NewDecoder(r)
	for {
		var m jsonmessage.JSONMessage
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the engine's messages: %w", err)
		}
		if m.Error != nil {
			return m.Error
		}
		if text := strings.TrimSpace(m.Stream + m.Status); text != "" && progress != nil {
			progress(text)
		}
	}
}
