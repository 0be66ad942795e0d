package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/pkg/jsonmessage"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildkit"
)

// registryPatience bounds how long a registry is asked why something failed.
const registryPatience = 15 * time.Second

// PullImage implements environment.Provider. Concurrent pulls of one reference are one pull.
func (p *Provider) PullImage(ctx context.Context, ref string, progress func(string)) error {
	present, err := p.hasImage(ctx, ref)
	if err != nil || present {
		return err
	}
	return p.flights.Do(ctx, "pull "+ref, progress, func(ctx context.Context, tell func(string)) error {
		return p.pull(ctx, ref, tell)
	})
}

// hasImage reports whether the engine has an image.
func (p *Provider) hasImage(ctx context.Context, ref string) (bool, error) {
	_, err := p.api.ImageInspect(ctx, ref)
	switch {
	case err == nil:
		return true, nil
	case cerrdefs.IsNotFound(err):
		return false, nil
	case cerrdefs.IsInvalidArgument(err):
		return false, nil // not a reference; its use reports that
	}
	return false, failed(environment.KindUnavailable, "look for image "+ref, err)
}

func (p *Provider) pull(ctx context.Context, ref string, tell func(string)) error {
	doing := "pull image " + ref
	config, err := credentials(ctx, ref)
	if err != nil {
		return wrapped(environment.KindPull, doing, err)
	}
	body, err := p.api.ImagePull(ctx, ref, image.PullOptions{RegistryAuth: encoded(config)})
	if err == nil {
		defer body.Close()
		out := buildkit.Lines{Progress: tell}
		err = readMessages(body, &out)
	}
	if err == nil {
		return nil
	}
	if isContext(err) || isConnection(err) {
		return failed(environment.KindPull, doing, err)
	}
	e := &environment.Error{Kind: environment.KindPull, Err: fmt.Errorf("%s: %w", doing, err)}
	e.Transient, e.Hint = p.pullFailure(ctx, ref, p.platform())
	return e
}

// hasItNow is the reason that pullFailure returns if the registry has the image.
const hasItNow = "its registry has it now"

// pullFailure returns why an image could not be pulled for a platform, and whether another try may
// help. Engines report the reasons in words only; so the registry is asked once more, in a way that
// has a status. platform "": it is not known.
func (p *Provider) pullFailure(ctx context.Context, ref, platform string) (transient bool, reason string) {
	ctx, cancel := context.WithTimeout(ctx, registryPatience)
	defer cancel()
	switch found, err := p.askRegistry(ctx, ref); {
	case err == nil:
		var has []string
		for _, p := range found.Platforms {
			has = append(has, p.OS+"/"+p.Architecture)
		}
		if others := lacks(has, platform); others != "" {
			return false, fmt.Sprintf("it is there for %s, and not for %s, which is the platform needed: choose another image, or a machine of that platform", others, platform)
		}
		return true, hasItNow
	case cerrdefs.IsNotFound(err), cerrdefs.IsInvalidArgument(err):
		return false, "there is no such image: check its name and tag"
	case cerrdefs.IsUnauthorized(err), cerrdefs.IsPermissionDenied(err):
		return false, "there is no such image, or it is private: check its name, or run docker login"
	case cerrdefs.IsResourceExhausted(err):
		reason = "its registry limits the rate of requests: wait"
		if config, err := credentials(ctx, ref); err == nil && encoded(config) == "" {
			reason += ", or run docker login, because limits are higher for accounts"
		}
		return true, reason
	}
	return true, "its registry cannot be reached from the Docker engine, or does not answer"
}

// lacks returns the platforms of an image that is not there for another one; "" if it is, or that
// is not known.
func lacks(has []string, platform string) string {
	// An attestation in an image's index has the platform unknown/unknown, and processors of 64
	// bits run the programs of those of 32.
	has = slices.DeleteFunc(slices.Clone(has), func(p string) bool { return p == "/" || p == "unknown/unknown" })
	runs := map[string]string{"linux/amd64": "linux/386", "linux/arm64": "linux/arm"}
	for _, own := range []string{platform, runs[platform]} {
		if platform == "" || own != "" && slices.Contains(has, own) {
			return ""
		}
	}
	slices.Sort(has)
	return strings.Join(slices.Compact(has), ", ")
}

// askRegistry has the engine look an image up in its registry.
func (p *Provider) askRegistry(ctx context.Context, ref string) (registry.DistributionInspect, error) {
	config, err := credentials(ctx, ref)
	if err != nil {
		return registry.DistributionInspect{}, err
	}
	return p.api.DistributionInspect(ctx, ref, encoded(config))
}

// readMessages reads the engine's progress messages until they end, and returns the error that is
// among them.
func readMessages(r io.Reader, out *buildkit.Lines) error {
	return readAnswers(r, out, func(json.RawMessage) {})
}

// readAnswers is readMessages that also passes on the messages meant for programs.
func readAnswers(r io.Reader, out *buildkit.Lines, answer func(json.RawMessage)) error {
	defer out.End()
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
		if m.Aux != nil {
			answer(*m.Aux)
		}
		out.Text(m.Stream)
		// The bars of single layers would drown everything else.
		if m.Status != "" && (m.Progress == nil || m.Progress.Total == 0) {
			line := m.Status
			if m.ID != "" {
				line = m.ID + ": " + line
			}
			out.Line(line)
		}
	}
}
