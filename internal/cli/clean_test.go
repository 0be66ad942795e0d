package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/clitest"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/providers"
)

// cleaning is a world with images, and the command that cleans it, some time later.
type cleaning struct {
	t        *testing.T
	provider *fake.Provider
}

func newCleaning(t *testing.T) cleaning {
	world := fake.NewWorld()
	withProvider(t, func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
		return fake.New(fake.Options{World: world}), nil
	})
	return cleaning{t, fake.New(fake.Options{World: world})}
}

func (c cleaning) build(name string) string {
	c.t.Helper()
	ref, err := c.provider.BuildImage(c.t.Context(), environment.BuildOptions{
		Name: name, Context: fstest.MapFS{"Dockerfile": {Data: []byte("FROM debian:bookworm\nRUN printf %02048d 0 >/" + name + "\n")}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return ref
}

func (c cleaning) create(image string) environment.Environment {
	c.t.Helper()
	env, err := c.provider.CreateEnvironment(c.t.Context(), environment.CreateOptions{Image: image, Labels: environment.Labels{Job: "j", Owner: environment.Self()}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = env.Destroy(context.Background()) })
	return env
}

func (c cleaning) run(later time.Duration, args ...string) said {
	var stdout, stderr bytes.Buffer
	env := Env{
		Providers: offered,
		Stdin:     strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: c.t.TempDir(), Getenv: func(string) (string, bool) { return "", false },
		Now: func() time.Time { return time.Now().Add(later) },
	}
	return said{Main(c.t.Context(), context.Background(), env, append([]string{"clean", "--env-type", "tried"}, args...)), stdout.String(), stderr.String()}
}

func (c cleaning) left() string {
	c.t.Helper()
	images, err := c.provider.Images(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, img := range images {
		name, _, _ := strings.Cut(strings.TrimPrefix(img.Name, "fake.local/"), ":")
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func TestCleanImages(t *testing.T) {
	const day = 24 * time.Hour
	c := newCleaning(t)
	c.build("alone")
	base := c.build("base")
	maker := c.create(base)
	kept, err := environment.Snapshot(t.Context(), maker, environment.SnapshotOptions{Key: strings.Repeat("0", 16), Description: "agent \x1b[31mx"})
	if err != nil {
		t.Fatal(err)
	}
	if err := maker.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	inUse := c.create(kept)
	expect := func(what string, got said, code int, left string, says ...string) {
		t.Helper()
		if got.code != code || c.left() != left {
			t.Errorf("%s: exit code %d, left %q, want %d, %q\n%s%s", what, got.code, c.left(), code, left, got.stdout, got.stderr)
		}
		for _, text := range says {
			if !strings.Contains(got.stdout+got.stderr, text) {
				t.Errorf("%s: %q is not said:\n%s%s", what, text, got.stdout, got.stderr)
			}
		}
	}
	const all = "alone base layer"
	expect("without --images", c.run(30*day), command.ExitOK, all, "removed 0 environments\n")
	expect("--older-than alone", c.run(30*day, "--older-than", "1d"), command.ExitUsage, all, "give --images, too")
	expect("no length of time", c.run(30*day, "--images", "--older-than", "-3h"), command.ExitUsage, all, "such as 36h, 7d or 2w")
	expect("young ones", c.run(7*day-time.Hour, "--images"), command.ExitOK, all, "removed 0 images\n")
	expect("just used", c.run(59*time.Minute, "--images", "--older-than", "0s"), command.ExitOK, all, "kept 1 image more, used within the last hour")
	expect("a dry run", c.run(8*day, "--images", "--dry-run"), command.ExitOK, all, "fake.local/alone:", "would remove 1 image, up to 2.")
	expect("old ones", c.run(8*day, "--images"), command.ExitOK, "base layer", "removed 1 image, up to 2.")
	if err := inUse.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := c.run(15*day, "--images", "--older-than", "2w")
	expect("those that were in use", got, command.ExitOK, "", "removed 2 images")
	if layer, under := strings.Index(got.stdout, "fake.local/layer:"), strings.Index(got.stdout, "fake.local/base:"); layer > under || strings.Contains(got.stdout, "\x1b") {
		t.Errorf("printed as %q", got.stdout)
	}
}

func TestCleanSweepsAllProvidersThatAreHere(t *testing.T) {
	absent := clitest.Entry("absent", func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
		return nil, &environment.Error{Kind: environment.KindUnavailable, Err: errors.New("no engine answers"), Hint: "start it"}
	})
	here := func(name string) (providers.Entry, *fake.Provider) {
		p := fake.New(fake.Options{World: fake.NewWorld()})
		ended := environment.Self()
		ended.PID, ended.Start = 1<<30, "0"
		if _, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: "debian:bookworm", Labels: environment.Labels{Job: "of-" + name, Owner: ended}}); err != nil {
			t.Fatal(err)
		}
		return clitest.Entry(name, func(context.Context, map[string]any, providers.Host) (environment.Provider, error) { return p, nil }), p
	}
	first, _ := here("first")
	second, _ := here("second")
	clean := func(table []providers.Entry, args ...string) said {
		var stdout, stderr bytes.Buffer
		env := Env{
			Providers: table, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: t.TempDir(), Now: time.Now,
			Getenv: func(string) (string, bool) { return "", false },
		}
		return said{Main(t.Context(), context.Background(), env, append([]string{"clean"}, args...)), stdout.String(), stderr.String()}
	}
	unused := clitest.Entry("unused", func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
		return nil, &environment.Error{Kind: environment.KindUnavailable, Unconfigured: true, Err: errors.New("no file names a cluster")}
	})
	got := clean([]providers.Entry{absent, first, unused, second})
	if got.code != command.ExitOK || !strings.Contains(got.stdout, "of-first") || !strings.Contains(got.stdout, "of-second") || !strings.Contains(got.stdout, "removed 2 environments") {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.stderr, "not cleaned up: absent: no engine answers\n") {
		t.Errorf("it does not say what it left out: %q", got.stderr)
	}
	if strings.Contains(got.stderr, "unused") {
		t.Errorf("it names a provider that nobody configured: %q", got.stderr)
	}
	if got := clean([]providers.Entry{unused}); got.code != command.ExitFailed || !strings.Contains(got.stderr, "no provider is here: none is configured") {
		t.Errorf("without a configured provider: %+v", got)
	}
	if got := clean([]providers.Entry{absent}); got.code != command.ExitFailed {
		t.Errorf("without any provider: %+v", got)
	}
	shared, atShared := here("shared")
	shared.Remote = true
	elsewhere := environment.Self()
	elsewhere.Host = "another"
	if _, err := atShared.CreateEnvironment(t.Context(), environment.CreateOptions{Image: "debian:bookworm", Labels: environment.Labels{Job: "of-others", Owner: elsewhere}}); err != nil {
		t.Fatal(err)
	}
	if got := clean([]providers.Entry{shared}, "--others"); strings.Contains(got.stdout, "of-others") || !strings.Contains(got.stdout, "of-shared") ||
		!strings.Contains(got.stderr, "shared: environments of other machines stay") {
		t.Errorf("trials of others ended: %+v", got)
	}
	if got := clean([]providers.Entry{shared}, "--others", "--env-type", "shared"); !strings.Contains(got.stdout, "of-others") {
		t.Errorf("--env-type names the provider: %+v", got)
	}
}
