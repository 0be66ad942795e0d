package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/quantity"
)

// An outcome is an image with two labels: its id, and the labels of the container that it was made
// of. Those are not labels of the image, because new containers would have them, too.
const (
	outcomeRepository = "rollout/outcome"
	outcomePrefix     = "outcome-" // of ids

	labelOutcome   = "rollout.outcome"
	labelOutcomeOf = "rollout.outcome.of"
)

// KeepOutcome implements environment.OutcomeKeeper: the container is committed while its processes
// are held still. The engine would do that itself, but commits all the same if it cannot.
func (e *containerEnv) KeepOutcome(ctx context.Context) (environment.Outcome, error) {
	doing := "keep the files of container " + e.id[:12]
	none := environment.Outcome{}
	state, _, err := e.p.api.ContainerInspectWithRaw(ctx, e.id, true)
	if err != nil {
		return none, failedInside(environment.KindSnapshot, doing, err)
	}
	if state.State == nil || !state.State.Running || state.Config == nil {
		return none, &environment.Error{Kind: environment.KindLost, Err: fmt.Errorf("%s: it is not running any more", doing)}
	}
	if e.p.podman.Load() {
		return none, &environment.Error{
			Kind: environment.KindSnapshot, Err: fmt.Errorf("%s: images that Podman makes do not have the files of one moment", doing),
			Hint: "use Docker, or keep the whole environment: preserve_env",
		}
	}
	if err := e.checkOutcome(ctx, state); err != nil {
		return none, failedInside(environment.KindSnapshot, doing, err)
	}
	config, err := e.outcomeConfig(ctx, state)
	if err != nil {
		return none, failedInside(environment.KindSnapshot, doing, err)
	}
	id := config.Labels[labelOutcome]
	committed, err := e.commitHeld(ctx, container.CommitOptions{
		Reference: outcomeRef(id), Comment: config.Labels[labelDescription], Config: config,
	})
	kept := environment.Outcome{ID: id}
	if err == nil {
		kept.Size, err = e.p.checkCommitted(ctx, committed.ID, state)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		err = failedInside(environment.KindSnapshot, doing, err)
		if removing := e.p.removeCommitted(ctx, outcomeRef(id)); removing != nil {
			err = fmt.Errorf("%w; and then: %w", err, removing)
		}
		return none, err
	}
	return kept, nil
}

// commitHeld commits the container while its processes are held still.
func (e *containerEnv) commitHeld(ctx context.Context, opts container.CommitOptions) (committed container.CommitResponse, err error) {
	release, err := e.hold(ctx)
	if err != nil {
		return committed, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
		defer cancel()
		err = errors.Join(err, release(ctx))
	}()
	longer, done := withGrace(ctx) // an engine cannot be told to stop it
	defer done()
	return commit(longer, e.p, e.id, opts)
}

// maxCommit is how many bytes the changed files of a container may have for it to be committed. An
// engine writes the holes of files, too, and cannot be told to stop.
const maxCommit = 32 << 30

// checkSize returns an error if a container, inspected with its size, has too much to be committed.
func checkSize(state container.InspectResponse) error {
	if state.SizeRw != nil && *state.SizeRw > maxCommit {
		return fmt.Errorf("the files that it has changed are too large: %s with their holes, and %s is the most", quantity.Size(*state.SizeRw), quantity.Size(maxCommit))
	}
	return nil
}

// checkOutcome returns why the container's files are not all in its layer, or nil.
func (e *containerEnv) checkOutcome(ctx context.Context, state container.InspectResponse) error {
	if at := volumeOf(state); at != "" {
		return fmt.Errorf("its image has a VOLUME at %s, whose files are not a part of images", at)
	}
	if err := checkSize(state); err != nil {
		return err
	}
	var mounts []string
	for _, m := range state.Mounts {
		if m.Type == mount.TypeBind {
			mounts = append(mounts, m.Destination)
		}
	}
	at, err := environment.FileInMemory(ctx, e, mounts...)
	if err == nil && at != "" {
		err = fmt.Errorf("%s is in memory", at)
	}
	return err
}

// outcomeConfig returns the configuration of the image that a container is committed to.
func (e *containerEnv) outcomeConfig(ctx context.Context, state container.InspectResponse) (*container.Config, error) {
	base, err := e.p.api.ImageInspect(ctx, state.Image)
	if err != nil {
		return nil, err
	}
	of, err := json.Marshal(environment.ParseLabels(state.Config.Labels).Map())
	if err != nil {
		return nil, err
	}
	labels := committedLabels("outcome", state.Image, "the files of container "+e.id[:12])
	labels[labelOutcome], labels[labelOutcomeOf] = outcomePrefix+strings.ToLower(rand.Text()[:16]), string(of)
	config := &container.Config{Labels: labels}
	var before []string
	if base.Config != nil {
		config.Healthcheck, before = base.Config.Healthcheck, base.Config.Env
	}
	config.Env = withoutValues(state.Config.Env, before)
	return config, nil
}

// committedLabels returns the labels of an image that is made of a container. All keys are set, so
// that no label of the container remains.
func committedLabels(job, base, description string) map[string]string {
	labels := environment.Labels{Job: job}.ImageMap()
	labels[labelBase], labels[labelDescription] = base, description
	labels[labelOutcome], labels[labelOutcomeOf] = "", ""
	return labels
}

// defaultPath is the PATH that engines give containers of an image without one. Source: Moby's
// oci/defaults.go.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// withoutValues returns variables that replace those of a container: with the values of its image,
// or empty. An engine adds the container's own to an image that lacks them.
func withoutValues(own, ofImage []string) []string {
	before := map[string]string{"PATH": defaultPath}
	for _, variable := range ofImage {
		name, value, _ := strings.Cut(variable, "=")
		before[name] = value
	}
	var out []string
	for _, variable := range own {
		name, _, _ := strings.Cut(variable, "=")
		out = append(out, name+"="+before[name])
	}
	return out
}

// outcomeRef returns the reference of an outcome's image.
func outcomeRef(id string) string {
	return outcomeRepository + ":" + strings.TrimPrefix(id, outcomePrefix)
}

// errVariables says that an engine has written a container's variables into an image. Those before
// version 25 do, besides the configuration that they were given.
var errVariables = errors.New("it was created with variables, and this engine would keep their values with the files")

// checkCommitted returns how much an image has that the one below it has not. It returns
// errVariables if values of the container's own variables are in the image's configuration.
func (p *Provider) checkCommitted(ctx context.Context, id string, of container.InspectResponse) (int64, error) {
	below, err := p.api.ImageInspect(ctx, of.Image)
	if err != nil {
		return 0, err
	}
	own, raw, err := p.api.ImageInspectWithRaw(ctx, id) //nolint:staticcheck // the only way to what the type no longer has
	if err != nil {
		return 0, err
	}
	for _, variable := range of.Config.Env {
		if below.Config != nil && slices.Contains(below.Config.Env, variable) || strings.HasSuffix(variable, "=") {
			continue
		}
		text, err := json.Marshal(variable)
		if err != nil || bytes.Contains(raw, text) {
			return 0, errors.Join(err, errVariables)
		}
	}
	return max(1, own.Size-below.Size), nil
}

// outcomes lists the images that KeepOutcome has made.
func (p *Provider) outcomes(ctx context.Context, more ...filters.KeyValuePair) ([]image.Summary, error) {
	found, err := p.api.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(append(more, filters.Arg("label", labelOutcome))...)})
	return slices.DeleteFunc(found, func(i image.Summary) bool { return i.Labels[labelOutcome] == "" }), err
}

// listOutcomes returns the outcomes as kept environments.
func (p *Provider) listOutcomes(ctx context.Context) ([]environment.Listed, error) {
	found, err := p.outcomes(ctx)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	sizes := map[string]int64{}
	all, err := p.api.ImageList(ctx, image.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		sizes[i.ID] = i.Size
	}
	var listed []environment.Listed
	for _, i := range found {
		var of map[string]string
		_ = json.Unmarshal([]byte(i.Labels[labelOutcomeOf]), &of) // else it has no owner
		l := environment.Listed{ID: i.Labels[labelOutcome], Labels: environment.ParseLabels(of), Kept: true, Size: i.Size}
		if below, known := sizes[i.Labels[labelBase]]; known {
			l.Size = max(1, i.Size-below)
		}
		listed = append(listed, l)
	}
	return listed, nil
}

// isOutcome reports whether an id can be that of an outcome.
func isOutcome(id string) bool { return strings.HasPrefix(id, outcomePrefix) }

// findOutcome returns the id of the image of an outcome, or "".
func (p *Provider) findOutcome(ctx context.Context, id string) (string, error) {
	found, err := p.outcomes(ctx, filters.Arg("label", labelOutcome+"="+id))
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0].ID, nil
}

// removeOutcome removes an outcome. One that is gone is no error.
func (p *Provider) removeOutcome(ctx context.Context, id string) error {
	doing := "remove " + id
	found, err := p.findOutcome(ctx, id)
	if err != nil {
		return failed(environment.KindTeardown, doing, err)
	}
	if found == "" {
		return nil
	}
	p.forgetSettings(found)
	_, err = p.api.ImageRemove(ctx, found, image.RemoveOptions{Force: true, PruneChildren: true})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return failed(environment.KindTeardown, doing, err)
	}
	return nil
}

// restoreOutcome starts a container from an outcome.
func (p *Provider) restoreOutcome(ctx context.Context, id string, opts environment.CreateOptions) (environment.Environment, error) {
	found, err := p.findOutcome(ctx, id)
	if err != nil {
		return nil, failed(environment.KindStart, "restore "+id, err)
	}
	opts.Image = found
	if found == "" {
		return nil, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("restore %s: %w", id, fs.ErrNotExist)}
	}
	return p.CreateEnvironment(ctx, opts)
}
