package inspect_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/test/apptest"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/providers"
)

func TestExportWritesToAFileOrAWriter(t *testing.T) {
	h, _ := apptest.New(t)
	if _, err := app.Run(t.Context(), h, stages.RunRequest{Job: stages.JobRequest{File: "job.yaml"}}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	req := inspect.ExportRequest{Dir: "jobs/nightly", Format: "csv", To: &out}
	report, err := inspect.Export(t.Context(), h, req)
	if err != nil || report.Trials != 2 || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("%+v, %v:\n%s", report, err, &out)
	}
	req.Output = "deep/out.csv"
	if _, err := inspect.Export(t.Context(), h, req); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(h.Path("deep/out.csv")); err != nil || string(text) != out.String() {
		t.Errorf("the file has %d bytes, the writer got %d, %v", len(text), out.Len(), err)
	}
	req.Format = "xml"
	_, err = inspect.Export(t.Context(), h, req)
	apptest.Refused(t, err, "--format xml: there are outputs")
}

func TestCleanRefusesUnknownProviders(t *testing.T) {
	h, _ := apptest.New(t)
	cleaned, err := inspect.Clean(t.Context(), h, inspect.CleanRequest{Provider: "nowhere"})
	apptest.Refused(t, err, "there is no such provider (there are: fake)")
	if cleaned != nil {
		t.Errorf("%+v", cleaned)
	}
	if cleaned, err = inspect.Clean(t.Context(), h, inspect.CleanRequest{Provider: "fake", Images: true}); err != nil || cleaned.Images == nil || len(cleaned.Environments) > 0 {
		t.Errorf("%+v, %v", cleaned, err)
	}
}

// stocked is a provider with unused environments and images.
type stocked struct {
	environment.Provider
	removed int
}

func (s *stocked) List(context.Context) ([]environment.Listed, error) {
	return []environment.Listed{{ID: "e", Labels: environment.Labels{Owner: environment.Owner{Host: "another"}}}}, nil
}

func (s *stocked) Remove(context.Context, string) error { s.removed++; return nil }

func (s *stocked) Images(context.Context) ([]environment.Image, error) {
	return []environment.Image{{ID: "a"}, {ID: "b"}}, nil
}

func (s *stocked) RemoveImage(context.Context, string) error { s.removed++; return nil }

func TestLongWorkIsReported(t *testing.T) {
	h, _ := apptest.New(t)
	var began []*event.Work
	ended := 0
	ctx := event.Watch(t.Context(), func(w *event.Work) func() {
		began = append(began, w)
		return func() { ended++ }
	})
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for _, w := range began {
			got = append(got, fmt.Sprintf("%s %d/%d", w.What, w.Done(), w.Total))
		}
		if !slices.Equal(got, want) || ended != len(want) {
			t.Errorf("%q, %d ended; want %q", got, ended, want)
		}
		began, ended = nil, 0
	}
	if _, err := app.Run(t.Context(), h, stages.RunRequest{Job: stages.JobRequest{File: "job.yaml"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := inspect.Export(ctx, h, inspect.ExportRequest{Dir: "jobs/nightly", Format: "csv", To: io.Discard}); err != nil {
		t.Fatal(err)
	}
	expect("Exporting trials 2/2")
	stock := &stocked{Provider: fake.New(fake.Options{})}
	h.Providers[0].New = func(context.Context, map[string]any, providers.Host) (environment.Provider, error) { return stock, nil }
	if _, err := inspect.Clean(ctx, h, inspect.CleanRequest{Provider: "fake", Images: true, Others: true}); err != nil || stock.removed != 3 {
		t.Errorf("%d removed, %v", stock.removed, err)
	}
	expect("Removing environments 1/1", "Listing images 0/0", "Removing images 2/2")
}
