package buildkit

import (
	"context"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/moby/buildkit/session/auth"
	"google.golang.org/grpc"
)

// logins answers BuildKit when it asks for credentials: from the user's Docker configuration and
// its credential helpers.
type logins struct {
	auth.UnimplementedAuthServer
}

// Register implements session.Attachable.
func (l logins) Register(server *grpc.Server) { auth.RegisterAuthServer(server, l) }

// Credentials implements auth.AuthServer. Host is a registry's.
func (logins) Credentials(ctx context.Context, req *auth.CredentialsRequest) (*auth.CredentialsResponse, error) {
	host := req.Host
	if host == "registry-1.docker.io" { // where Docker Hub's images are, not its accounts
		host = name.DefaultRegistry
	}
	at, err := name.NewRegistry(host, name.WeakValidation)
	if err != nil {
		return nil, err
	}
	found, err := authn.Resolve(ctx, authn.DefaultKeychain, at)
	if err != nil {
		return nil, err
	}
	config, err := authn.Authorization(ctx, found)
	if err != nil {
		return nil, err
	}
	if config.IdentityToken != "" {
		return &auth.CredentialsResponse{Secret: config.IdentityToken}, nil
	}
	return &auth.CredentialsResponse{Username: config.Username, Secret: config.Password}, nil
}
