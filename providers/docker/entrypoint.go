package docker

import (
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/org/rollout-action/internal/core/environment"
)

// settings are the parts of an image's configuration that Rollout, not the engine, acts on.
type settings struct {
	entrypoint  []string
	shell       []string
	healthcheck *container.HealthConfig
	volumes     []string // sorted
	user        string
}

// health returns the image's HEALTHCHECK.
func (s settings) health() *environment.Healthcheck {
	h := s.healthcheck
	if h == nil {
		return nil
	}
	return environment.NewHealthcheck(h.Test, s.shell, environment.Healthcheck{
		Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, StartInterval: h.StartInterval, Retries: h.Retries,
	})
}

// noteSettings caches the settings of an image, so that not every container costs a request.
func (p *Provider) noteSettings(ref string, found image.InspectResponse) settings {
	var s settings
	if c := found.Config; c != nil {
		s = settings{entrypoint: c.Entrypoint, shell: c.Shell, healthcheck: c.Healthcheck, volumes: slices.Sorted(maps.Keys(c.Volumes)), user: c.User}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settings == nil {
		p.settings = map[string]settings{}
	}
	p.settings[ref] = s
	return s
}

// settingsOf returns the settings of an image that containers can be made of.
func (p *Provider) settingsOf(ctx context.Context, ref string) (settings, error) {
	p.mu.Lock()
	s, known := p.settings[ref]
	p.mu.Unlock()
	if known {
		return s, nil
	}
	found, err := inspectImage(ctx, p, ref)
	if cerrdefs.IsNotFound(err) || cerrdefs.IsInvalidArgument(err) {
		return settings{}, nil // creating a container reports it
	}
	if err != nil {
		return settings{}, failed(environment.KindStart, "look for image "+ref, err)
	}
	return p.noteSettings(ref, found), nil
}

// Readiness implements environment.ReadinessReporter.
func (e *containerEnv) Readiness() environment.Readiness {
	return environment.Readiness{Healthcheck: e.settings.health(), Busy: e.busy}
}

// awaitIdle is a script that waits until a process of the container runs the idle command. Its
// arguments are that command's script, and the longest wait in seconds. An ENTRYPOINT that has not
// run the command yet contains it in its own arguments, but not as the first ones.
const awaitIdle = `end=$((SECONDS + $2))
while :; do
  for list in /proc/[0-9]*/cmdline; do
    { IFS= read -r -d '' a && IFS= read -r -d '' b && IFS= read -r -d '' c; } 2>/dev/null <"$list" || continue
    [[ ${a##*/} == bash && $b == -c && $c == "$1" ]] && exit 0
  done
  ((SECONDS < end)) || exit 3
  sleep 0.02 || exit 4
done`

const stillBusy = 3 // the exit code of awaitIdle when the time is over

// awaitEntrypoint waits until the image's ENTRYPOINT, if it has one, has run its arguments.
func (e *containerEnv) awaitEntrypoint(ctx context.Context) error {
	if len(e.settings.entrypoint) == 0 || e.settings.health() != nil {
		return nil
	}
	within := strconv.Itoa(int(environment.HandoverTime / time.Second))
	p, err := e.start(ctx, ownCommand(awaitIdle, environment.Idle()[2], within), nil, io.Discard, io.Discard)
	if err != nil {
		return err
	}
	code, err := p.wait(ctx)
	p.drain(0)
	switch {
	case ctx.Err() != nil:
		return failed(environment.KindStart, "wait for the image's ENTRYPOINT", ctx.Err())
	case err != nil:
		return err
	case code == 0:
		return nil
	}
	e.busy = code == stillBusy
	return e.checkRunning(ctx)
}

// forgetSettings is called when a reference has got another image.
func (p *Provider) forgetSettings(ref string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.settings, ref)
}
