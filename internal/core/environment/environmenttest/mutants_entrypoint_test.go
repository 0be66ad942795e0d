package environmenttest

import (
	"context"
	"strings"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
)

// rewritten returns a hook that changes Dockerfiles before they are built.
func rewritten(change func(dockerfile string) string) hooks {
	return hooks{build: func(m *mutant, ctx context.Context, o environment.BuildOptions) (string, error) {
		o.Context = remap(o.Context, func(name string, f *fstest.MapFile) string {
			if name == "Dockerfile" {
				f.Data = []byte(change(string(f.Data)))
			}
			return name
		})
		return m.Provider.BuildImage(ctx, o)
	}}
}

// ready returns a hook that changes the reported Readiness.
func ready(change func(r *environment.Readiness)) hooks {
	return hooks{readiness: func(e *brokenEnv) environment.Readiness {
		r := environment.ReadinessOf(e.Environment)
		change(&r)
		return r
	}}
}

var entrypointMutants = []broken{
	{"never runs an ENTRYPOINT", []string{
		"an ENTRYPOINT has done its work*", "an ENTRYPOINT runs as*", "an ENTRYPOINT in shell form*",
		"what an ENTRYPOINT started lives on after a timeout", "what an ENTRYPOINT starts later*", "an ENTRYPOINT that exits at once*",
		"an ENTRYPOINT that is not there*", "an ENTRYPOINT that exits later*", "an ENTRYPOINT that prints much*",
		"stopping and destroying end what an ENTRYPOINT started", "a snapshot has its image's ENTRYPOINT*", "a creation that is cancelled while*",
		"an ENTRYPOINT that never runs*",
	}, rewritten(func(text string) string { return strings.ReplaceAll(text, "\nENTRYPOINT ", "\nLABEL entry=") })},
	{"runs an ENTRYPOINT as root", []string{"an ENTRYPOINT runs as*"}, rewritten(func(text string) string {
		return strings.ReplaceAll(text, "USER nobody", "RUN true")
	})},
	{"gives an ENTRYPOINT the image's CMD", []string{"an ENTRYPOINT has done its work*"}, rewritten(func(text string) string {
		return strings.ReplaceAll(text, "\"an argument\"]", "\"an argument\", \"never\", \"run\"]")
	})},
	{"does not wait for an ENTRYPOINT", []string{"an ENTRYPOINT has done its work*"}, rewritten(func(text string) string {
		return text + "\nHEALTHCHECK CMD true\n"
	})},
	{"knows the last of several ENTRYPOINTs alone if it is not empty", []string{"an ENTRYPOINT that is taken back*"}, rewritten(func(text string) string {
		return strings.ReplaceAll(text, "ENTRYPOINT []", "")
	})},
	{"ends an ENTRYPOINT's processes with a command", []string{
		"what an ENTRYPOINT started lives on after a timeout", "what an ENTRYPOINT starts later*",
	}, hooks{exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
		code, err := e.Environment.Exec(ctx, script, o)
		if err != nil {
			_, _ = e.Environment.Exec(ctx, "kill -9 $(cat /k/*.pid)", environment.ExecOptions{})
		}
		return code, err
	}}},
	{"goes on when an ENTRYPOINT has ended", []string{"an ENTRYPOINT that exits later*", "an environment outlives*"}, hooks{
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			if strings.HasPrefix(script, "kill -9") {
				return -1, &environment.Error{Kind: environment.KindLost, Err: context.Canceled}
			}
			code, err := e.Environment.Exec(ctx, script, o)
			if environment.KindOf(err) == environment.KindLost {
				return 0, nil
			}
			return code, err
		},
	}},
	{"does not say that an ENTRYPOINT is busy", []string{"an ENTRYPOINT that never runs*"}, ready(func(r *environment.Readiness) { r.Busy = false })},
	{"does not tell of a HEALTHCHECK", []string{"an image's HEALTHCHECK*", "a snapshot has its image's ENTRYPOINT*", "with a HEALTHCHECK*"},
		ready(func(r *environment.Readiness) { r.Healthcheck = nil })},
	{"tells another HEALTHCHECK", []string{"an image's HEALTHCHECK*"}, ready(func(r *environment.Readiness) {
		if r.Healthcheck != nil {
			other := *r.Healthcheck
			other.Retries++
			r.Healthcheck = &other
		}
	})},
}
