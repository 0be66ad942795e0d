package docker

import (
	"net/http"

	"github.com/docker/docker/client"
	"github.com/org/rollout-action/internal/environment"
)

// maxIdle is how many connections to the engine are kept for later: as many as there may be
// environments at work, for each reconnect costs time.
const maxIdle = 64

// connect makes the client; nothing is sent yet.
func connect() (*client.Client, error) {
	transport := &http.Transport{MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdle}
	api, err := client.NewClientWithOpts(
		client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}),
		client.WithHost(client.DefaultDockerHost),
		client.FromEnv,
		client.WithAPIVersionNegotiation(),
	)
	if err != nil {
		return nil, &environment.Error{Kind: environment.KindUnavailable, Err: err}
	}
	return api, nil
}
