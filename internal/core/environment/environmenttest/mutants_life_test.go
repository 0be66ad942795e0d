package environmenttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

var lifecycleMutants = []broken{
	{"has no name", []string{"a provider has a name"}, hooks{name: func() string { return "" }}},
	{"makes one environment for all", []string{"two environments share nothing"}, hooks{
		create: func(m *mutant, ctx context.Context, o environment.CreateOptions) (environment.Environment, error) {
			if all := m.all(); len(all) > 0 {
				return all[0], nil
			}
			return m.make(ctx, o)
		}}},
	{"loses a label", []string{"labels are found by another provider as they were given"},
		changeCreate(func(o *environment.CreateOptions) { o.Labels.Trial = "" })},
	{"removes nothing", []string{"another provider can remove an environment"}, hooks{
		remove: func(*mutant, context.Context, string) error { return nil }}},
	{"wants to find what it removes", []string{"removing a missing environment is no error",
		"an environment that the backend lost is lost, and destroying it is no error"}, hooks{
		remove: func(m *mutant, ctx context.Context, id string) error {
			list, err := m.List(ctx)
			for _, l := range list {
				if l.ID == id {
					return m.Provider.Remove(ctx, id)
				}
			}
			return errors.Join(err, errors.New("not found"))
		}}},
	{"takes any image", []string{"an image that does not exist makes no environment"},
		changeCreate(func(o *environment.CreateOptions) { o.Image = "debian:bookworm" })},
	{"pulls anything", []string{"an image that does not exist cannot be pulled"}, hooks{
		pull: func(*mutant, context.Context, string) error { return nil }}},
	{"pulls nothing", []string{"an image that is present need not be pulled"}, hooks{
		pull: func(*mutant, context.Context, string) error { return errors.New("no network") }}},
	{"forgets what it had begun", []string{"a creation that is cancelled leaves nothing"}, hooks{
		create: func(m *mutant, ctx context.Context, o environment.CreateOptions) (environment.Environment, error) {
			env, err := m.make(context.WithoutCancel(ctx), o)
			return env, errors.Join(ctx.Err(), err)
		}}},
	{"destroys everything when it is closed", []string{"a provider closed leaves its environments alone"}, hooks{
		close: func(m *mutant) error {
			for _, e := range m.all() {
				_ = e.Environment.Destroy(context.Background())
			}
			return m.Provider.Close()
		}}},
	{"destroys once only", []string{"destroying twice is no error", "many may destroy at once"}, hooks{
		destroy: func(e *brokenEnv, ctx context.Context) error {
			if e.count() > 1 {
				return errors.New("already destroyed")
			}
			return e.Environment.Destroy(ctx)
		}}},
	{"destroys nothing", []string{"a destroyed environment is lost", "destroying twice is no error", "cost is an amount"}, hooks{
		destroy: func(*brokenEnv, context.Context) error { return nil }}},
	{"takes the end of an environment for that of the command", []string{"destroying ends a running command", "stopping ends a running command",
		"an environment that the backend loses ends its command"}, hooks{
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			code, err := e.Environment.Exec(ctx, script, o)
			if environment.KindOf(err) == environment.KindLost {
				return 137, nil
			}
			return code, err
		}}},
	{"stops nothing", []string{"stopping keeps the files, marks the environment and ends its processes", "stopping ends a running command"}, hooks{
		stop: func(*brokenEnv, context.Context) error { return nil }}},
	{"destroys instead of stopping", []string{"stopping keeps the files, marks the environment and ends its processes"}, hooks{
		stop: func(e *brokenEnv, ctx context.Context) error { return e.Environment.Destroy(ctx) }}},
	{"counts the cost backwards", []string{"cost is an amount"}, hooks{cost: func(*brokenEnv) float64 { return -1 }}},
	{"does not say why another base is used", []string{"a base other than the image is reported in full, *"}, hooks{
		base: func(*brokenEnv) *environment.Base {
			return &environment.Base{Requested: "debian:bookworm", Actual: "another"}
		}}},
	{"does not say instead of what another base is used", []string{"a base other than the image is reported in full, *"}, hooks{
		base: func(*brokenEnv) *environment.Base { return &environment.Base{Actual: "another", Reason: "no network"} }}},
	{"does not say which other base is used", []string{"a base other than the image is reported in full, *"}, hooks{
		base: func(*brokenEnv) *environment.Base {
			return &environment.Base{Requested: "debian:bookworm", Actual: "\n", Reason: "no network"}
		}}},
	{"says its base to the first who asks", []string{"a base other than the image is reported in full, *"}, hooks{
		base: func(e *brokenEnv) *environment.Base {
			if e.count() > 1 {
				return nil
			}
			return standIn
		}}},
	{"stands on another base every other time", []string{"a base other than the image is reported in full, *"}, hooks{
		base: func(e *brokenEnv) *environment.Base {
			if e.m.all()[0] == e {
				return nil
			}
			return standIn
		}}},
	{"forgets one in a while", []string{"50 environments at once leave nothing behind"}, hooks{
		destroy: func(e *brokenEnv, ctx context.Context) error {
			if all := e.m.all(); len(all) > 7 && all[7] == e {
				return nil
			}
			return e.Environment.Destroy(ctx)
		}}},
	{"gives all the same id", []string{"two environments share nothing", "50 environments at once leave nothing behind"}, hooks{
		id: func(*brokenEnv) string { return "fake-000001" }}},
}

// standIn is a valid base other than the image.
var standIn = &environment.Base{Requested: "debian:bookworm", Actual: "another", Reason: "no network"}

// says returns a provider that claims to enforce all limits, and whose commands all print out.
func says(out string) hooks {
	return hooks{
		unenforced: func() []string { return nil },
		exec: func(_ *brokenEnv, _ context.Context, _ string, o environment.ExecOptions) (int, error) {
			_, err := io.WriteString(o.Stdout, out)
			return 0, err
		},
	}
}

var limitMutants = []broken{
	{"gives all the memory it has", []string{"memory is limited"}, says("400000000\n")},
	{"gives a whole processor", []string{"cpus are limited"}, says("2000 2000\n")},
	{"starts any number of processes", []string{"processes are limited"}, says("all\n")},
	{"loses an environment that has no room", []string{"processes that fill their limit are counted, *"}, hooks{
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			if strings.HasPrefix(script, "echo began") {
				return -1, &environment.Error{Kind: environment.KindLost, Err: errors.New("no program can be started")}
			}
			return e.Environment.Exec(ctx, script, o)
		}}},
	{"has an endless disk", []string{"storage is limited"}, says("")},
	{"promises any number of processors", []string{"limits that the machine does not have are refused"},
		changeCreate(func(o *environment.CreateOptions) { o.Limits.MilliCPUs = 1 })},
}

var buildMutants = []broken{
	{"builds nothing", []string{"an image has what its Dockerfile says"}, hooks{
		build: func(*mutant, context.Context, environment.BuildOptions) (string, error) {
			return "debian:bookworm", nil
		}}},
	{"makes no directories for volumes", []string{"the directories of an image's VOLUME *"}, changeBuild(func(o *environment.BuildOptions) {
		o.Context = remap(o.Context, func(name string, f *fstest.MapFile) string {
			f.Data = bytes.ReplaceAll(f.Data, []byte("VOLUME"), []byte("# "))
			return name
		})
	})},
	{"takes root for a user who is not there", []string{"a USER who is not in the image *"}, changeBuild(func(o *environment.BuildOptions) {
		o.Context = remap(o.Context, func(name string, f *fstest.MapFile) string {
			f.Data = bytes.ReplaceAll(f.Data, []byte("no-such-user"), []byte("root"))
			return name
		})
	})},
	{"makes directories for somebody else", []string{"a working directory that the image lacks is made"}, hooks{
		create: func(m *mutant, ctx context.Context, o environment.CreateOptions) (environment.Environment, error) {
			env, err := m.make(ctx, o)
			if err == nil {
				_, err = env.Exec(ctx, "case $PWD in */work/dir) chown 65534 .;; esac", environment.ExecOptions{User: "root"})
			}
			return env, err
		}}},
	{"builds every time", []string{"the same content gives the same image and is built once", "two builds of the same content at once build once"},
		changeBuild(func(o *environment.BuildOptions) { o.NoCache = true })},
	{"never builds again", []string{"without cache an image is built again"}, changeBuild(func(o *environment.BuildOptions) { o.NoCache = false })},
	{"does not look at modes", []string{"changed content gives another image"}, changeBuild(func(o *environment.BuildOptions) {
		o.Context = remap(o.Context, func(name string, f *fstest.MapFile) string { f.Mode = f.Mode.Type() | 0o644; return name })
	})},
	{"knows files by their size", []string{"contexts that differ only in the contents of files are not confused"},
		changeBuild(func(o *environment.BuildOptions) {
			o.Context = remap(o.Context, func(name string, f *fstest.MapFile) string {
				if name != "Dockerfile" {
					clear(f.Data)
				}
				return name
			})
		})},
	{"knows no .dockerignore", []string{"what .dockerignore names is no part of the content"}, changeBuild(func(o *environment.BuildOptions) {
		o.Context = remap(o.Context, func(name string, _ *fstest.MapFile) string {
			if name == ".dockerignore" {
				return ""
			}
			return name
		})
	})},
	{"forgets arguments", []string{"build arguments are part of the content"}, changeBuild(func(o *environment.BuildOptions) { o.Args = nil })},
	{"takes plain names only", []string{"any name makes a reference"}, hooks{
		build: func(m *mutant, ctx context.Context, o environment.BuildOptions) (string, error) {
			if !fs.ValidPath(o.Name) {
				return "", errors.New("invalid reference format")
			}
			return m.Provider.BuildImage(ctx, o)
		}}},
	{"does not show what a build printed", []string{"a failed build reports its last output"}, changeBuildError(func(e *environment.Error) { e.Output = "" })},
	{"calls everything a failure to start", []string{"a context without a sound Dockerfile fails to build"},
		changeBuildError(func(e *environment.Error) { e.Kind = environment.KindStart })},
	{"calls failed builds transient", []string{"a failed build reports its last output"}, changeBuildError(func(e *environment.Error) { e.Transient = true })},
	{"builds whatever the context says", []string{"a build that is cancelled ends"}, hooks{
		patience: 10 * time.Second,
		build: func(m *mutant, ctx context.Context, o environment.BuildOptions) (string, error) {
			return m.Provider.BuildImage(context.WithoutCancel(ctx), o)
		}}},
}

// changeBuildError returns a build hook that changes its errors.
func changeBuildError(change func(e *environment.Error)) hooks {
	return hooks{build: func(m *mutant, ctx context.Context, o environment.BuildOptions) (string, error) {
		ref, err := m.Provider.BuildImage(ctx, o)
		var e *environment.Error
		if errors.As(err, &e) {
			change(e)
		}
		return ref, err
	}}
}
