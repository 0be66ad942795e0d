package trial_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
)

// standIn is a provider whose environments have another base than their image.
type standIn struct {
	environment.Provider
	base func(image string) *environment.Base
}

func (s *standIn) Unwrap() environment.Provider { return s.Provider }

func (s *standIn) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	env, err := s.Provider.CreateEnvironment(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &standInEnv{env, s.base(opts.Image)}, nil
}

type standInEnv struct {
	environment.Environment
	base *environment.Base
}

func (s *standInEnv) Unwrap() environment.Environment { return s.Environment }

func (s *standInEnv) Base() *environment.Base { return s.base }

// onAnother returns the fake place with another base.
func onAnother(base func(image string) *environment.Base) place {
	p := fakePlace
	p.open = func(t testing.TB) environment.Provider { return &standIn{fakePlace.open(t), base} }
	return p
}

// notices returns the messages of the job's notices.
func (o outcome) notices(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, e := range o.events {
		if e.Kind != event.Notice {
			continue
		}
		if e.Key != nil || e.Time.IsZero() {
			t.Errorf("a notice of the job has the key %v and the time %v", e.Key, e.Time)
		}
		all = append(all, e.Message)
	}
	return all
}

func TestSubstitutedImageIsInEveryResultAndAnnouncedOnce(t *testing.T) {
	t.Parallel()
	p := onAnother(func(image string) *environment.Base {
		return &environment.Base{
			Requested: image, Actual: "a copy-on-write view of this machine's root (Debian GNU/Linux 12)",
			Reason: "the registry\nsaid no to s3cr3t-t0ken",
		}
	})
	s := story{agent: script("true"), secrets: []string{"s3cr3t-t0ken"}}
	sc := p.newScene(t, s)
	puzzle := s.task(t, p)
	var all sync.WaitGroup
	outcomes := make([]outcome, 4)
	for i := range outcomes {
		all.Go(func() { outcomes[i] = sc.run(s, puzzle, i+1) })
	}
	all.Wait()
	base := result.Base{
		Requested: p.image, Actual: "a copy-on-write view of this machine's root (Debian GNU/Linux 12)",
		Reason: "the registry said no to ***",
	}
	for _, o := range outcomes {
		o.check(t, want{reward: "1"})
		if got := o.Trial.Environment.Base; got == nil || *got != base {
			t.Errorf("the result has the base %+v, want %+v", got, base)
		}
	}
	said := outcome{events: sc.events}.notices(t)
	if text := p.image + " is NOT used: its trials run on " + base.Actual + " instead (" + base.Reason + ")"; !slices.Equal(said, []string{text}) {
		t.Errorf("the job was told %q, want once %q", said, text)
	}
}

// A job that asks for a stand-in gets no warning of it.
func TestRequestedSubstituteIsNoWarning(t *testing.T) {
	t.Parallel()
	p := onAnother(func(image string) *environment.Base {
		return &environment.Base{Requested: image, Actual: "this machine's root", Reason: "the job file says base: host", Asked: true}
	})
	o := p.run(t, story{agent: script("true")})
	o.check(t, want{reward: "1"})
	if said := o.notices(t); len(said) > 0 {
		t.Errorf("the job was told %q", said)
	}
	if base := o.Trial.Environment.Base; base == nil || !base.Asked {
		t.Errorf("the result has the base %+v, want one that was asked for", base)
	}
}

func TestSandboxOnHostRootIsReported(t *testing.T) {
	t.Parallel()
	built := dockerfile("FROM {{image}}\nCOPY nonce /nonce\n")
	for name, s := range map[string]story{
		"instead of an image":             {agent: script("true")},
		"instead of a Dockerfile's image": {agent: script("[ -e /nonce ]"), files: built},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := sandboxPlace.run(t, s)
			o.check(t, want{reward: "1"})
			base := o.Trial.Environment.Base
			if base == nil || base.Requested != sandboxPlace.image {
				t.Fatalf("the result has the base %+v, want one for %s", base, sandboxPlace.image)
			}
			contains(t, "what stands in", base.Actual, "this machine's root")
			contains(t, "why", base.Reason, "base", "host") // the provider's words are its own
			if said := o.notices(t); !base.Asked || len(said) > 0 {
				t.Errorf("asked for is %v, and the job was told %q", base.Asked, said)
			}
		})
	}
}

func TestEachSubstitutedImageIsAnnounced(t *testing.T) {
	t.Parallel()
	bases := []*environment.Base{
		{Requested: "python:3.12", Actual: "this", Reason: "no network"},
		{Requested: "python:3.12", Actual: "this", Reason: "still no network"},
		{Requested: "python:3.12", Actual: "that", Reason: "no network"},
		{Requested: "node:22", Actual: "this", Reason: "no network"},
	}
	made := 0
	p := onAnother(func(string) *environment.Base { made++; return bases[made-1] })
	s := story{agent: script("true")}
	sc := p.newScene(t, s)
	puzzle := s.task(t, p)
	for i := range bases {
		sc.run(s, puzzle, i+1)
	}
	want := []string{
		"python:3.12 is NOT used: its trials run on this instead (no network)",
		"python:3.12 is NOT used: its trials run on that instead (no network)",
		"node:22 is NOT used: its trials run on this instead (no network)",
	}
	if said := (outcome{events: sc.events}).notices(t); !slices.Equal(said, want) {
		t.Errorf("the job was told %q, want %q", said, want)
	}
}

func TestUnsubstitutedImageIsNotAnnounced(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		if p.stands {
			needImage(t)
			p = strictPlace
		}
		o := p.run(t, story{agent: script("true")})
		o.check(t, want{reward: "1"})
		if said := o.notices(t); len(said) > 0 {
			t.Errorf("the job was told %q", said)
		}
		var fields struct {
			Environment map[string]any `json:"environment"`
		}
		text, err := result.Marshal(o.Trial)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		if base, there := fields.Environment["base"]; there || fields.Environment["provider"] == nil {
			t.Errorf("environment.base is %v in %s", base, text)
		}
	})
}
