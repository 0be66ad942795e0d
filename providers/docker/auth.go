package docker

import (
	"context"
	"fmt"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/registry"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// credentials returns the user's credentials for the registry of an image, from the Docker
// configuration and its credential helpers. The zero value means none.
func credentials(ctx context.Context, ref string) (registry.AuthConfig, error) {
	image, err := name.ParseReference(ref, name.WeakValidation)
	if err != nil {
		return registry.AuthConfig{}, fmt.Errorf("%w: %w", cerrdefs.ErrInvalidArgument, err)
	}
	return lookUp(ctx, image.Context())
}

func lookUp(ctx context.Context, at authn.Resource) (registry.AuthConfig, error) {
	found, err := authn.Resolve(ctx, authn.DefaultKeychain, at)
	if err != nil {
		return registry.AuthConfig{}, err
	}
	config, err := authn.Authorization(ctx, found)
	if err != nil {
		return registry.AuthConfig{}, err
	}
	return registry.AuthConfig{
		Username:      config.Username,
		Password:      config.Password,
		Auth:          config.Auth,
		ServerAddress: at.RegistryStr(),
		IdentityToken: config.IdentityToken,
		RegistryToken: config.RegistryToken,
	}, nil
}

// encoded returns credentials in the format of the engine's header; "" if there are none.
func encoded(config registry.AuthConfig) string {
	if config == (registry.AuthConfig{ServerAddress: config.ServerAddress}) {
		return ""
	}
	text, err := registry.EncodeAuthConfig(config)
	if err != nil {
		return "" // a struct of strings can always be encoded
	}
	return text
}
