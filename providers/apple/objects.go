package apple

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/org/rollout-action/providers/internal/hosted"
)

// container is an element of what "container list --format json" prints, as far as it is used.
// Source: Sources/ContainerResource/Container/ManagedContainer.swift and the types of its fields.
type container struct {
	ID            string `json:"id"`
	Configuration struct {
		Labels map[string]string `json:"labels"`
	} `json:"configuration"`
	Status struct {
		State string `json:"state"`
	} `json:"status"`
}

// stateRunning is the state of containers that run.
// Source: Sources/ContainerResource/Container/RuntimeStatus.swift.
const stateRunning = "running"

// imageResource is an element of what "container image inspect" prints, as far as it is used.
// Source: Sources/ContainerResource/Image/ImageResource.swift and, in apple/containerization,
// Sources/ContainerizationOCI/ImageConfig.swift.
type imageResource struct {
	ID       string    `json:"id"`
	Variants []variant `json:"variants"`
}

type variant struct {
	Platform struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
	Digest string `json:"digest"`
	Config struct {
		Config struct {
			User       string   `json:"User"`
			Env        []string `json:"Env"`
			Entrypoint []string `json:"Entrypoint"`
			WorkingDir string   `json:"WorkingDir"`
		} `json:"config"`
		History []struct {
			CreatedBy string `json:"created_by"`
		} `json:"history"`
	} `json:"config"`
}

// list returns Rollout's containers, running or not.
func (c command) list(ctx context.Context) ([]container, error) {
	out, err := c.run(ctx, 1, nil, "list", "--all", "--format", "json")
	if err != nil {
		return nil, err
	}
	var all []container
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, fmt.Errorf("read what container list prints: %w", err)
	}
	return slices.DeleteFunc(all, func(c container) bool { return c.Configuration.Labels[hosted.TagOurs] == "" }), nil
}

// find returns a container; found is false if there is none.
func (c command) find(ctx context.Context, id string) (one container, found bool, err error) {
	all, err := c.list(ctx)
	if err != nil {
		return container{}, false, err
	}
	i := slices.IndexFunc(all, func(c container) bool { return c.ID == id })
	if i < 0 {
		return container{}, false, nil
	}
	return all[i], true, nil
}

// inspect describes an image.
func (c command) inspect(ctx context.Context, ref string) (imageResource, error) {
	out, err := c.run(ctx, 2, nil, "image", "inspect", ref)
	if err != nil {
		return imageResource{}, err
	}
	var list []imageResource
	if err := json.Unmarshal(out, &list); err != nil || len(list) != 1 {
		return imageResource{}, fmt.Errorf("read what container image inspect prints: %d images: %w", len(list), err)
	}
	return list[0], nil
}

// serving reports whether the system service answers.
func (c command) serving(ctx context.Context) bool {
	_, err := c.run(ctx, 2, nil, "system", "status")
	return err == nil
}
