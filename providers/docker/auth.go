package docker

import (
	"context"
	"fmt"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/registry"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/moby/buildkit/session/auth"
	"google.golang.org/grpc"
)

// credentials returns what the user's Docker configuration, credential helpers included, knows about
// the registry of an image. The zero value is no credentials.
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

// encoded returns auth as the engine's header wants it; "" if there is none.
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

// buildAuth answers BuildKit when it asks for credentials.
type buildAuth struct {
	auth.UnimplementedAuthServer
}

// Register implements session.Attachable.
func (a buildAuth) Register(server *grpc.Server) { auth.RegisterAuthServer(server, a) }

// Credentials implements auth.AuthServer. Host is a registry's.
func (a buildAuth) Credentials(ctx context.Context, req *auth.CredentialsRequest) (*auth.CredentialsResponse, error) {
	host := req.Host
	if host == "registry-1.docker.io" { // where Docker Hub's images are, not its accounts
		host = name.DefaultRegistry
	}
	at, err := name.NewRegistry(host, name.WeakValidation)
	if err != nil {
		return nil, err
	}
	config, err := lookUp(ctx, at)
	if err != nil {
		return nil, err
	}
	if config.IdentityToken != "" {
		return &auth.CredentialsResponse{Secret: config.IdentityToken}, nil
	}
	return &auth.CredentialsResponse{Username: config.Username, Secret: config.Password}, nil
}
