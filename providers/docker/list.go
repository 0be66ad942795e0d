package docker

import (
	"context"
	"slices"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

// listContainers returns the containers that match the filters, running or not. An engine that
// kills and removes a container at once may go on to list it as being removed, until it restarts:
// those that it does not know when asked for them, once, are left out.
func listContainers(ctx context.Context, api client.APIClient, matching ...filters.KeyValuePair) ([]container.Summary, error) {
	list, err := api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(matching...)})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(c container.Summary) bool {
		if c.State != container.StateRemoving && c.State != container.StateDead {
			return false
		}
		_, err := api.ContainerInspect(askOnce(ctx), c.ID)
		return cerrdefs.IsNotFound(err)
	}), nil
}
