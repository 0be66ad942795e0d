package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/providers"
)

// refused fails the test if err is not a UsageError that contains text.
func refused(t *testing.T, err error, text string) {
	t.Helper()
	var usage *app.UsageError
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want a usage error about %q", err, text)
	}
}

func TestDatasetsOfARegistry(t *testing.T) {
	h, out := host(t)
	registry := `[{"name": "d/x", "version": "1.0", "description": "", "metrics": [], "format": "rollout",
		"tasks": [{"name": "one", "git_url": "", "git_commit_id": "", "path": "evals/one"}, {"name": "two", "git_url": "", "git_commit_id": "", "path": "evals/two"}]}]`
	if err := os.WriteFile(h.Path("registry.json"), []byte(registry), 0o644); err != nil {
		t.Fatal(err)
	}
	listed, err := app.ListDatasets(t.Context(), h, "registry.json")
	if err != nil || len(listed.List) != 1 || !listed.List[0].Default || listed.List[0].Tasks != 2 {
		t.Errorf("%+v, %v", listed, err)
	}
	req := app.DatasetRequest{Registry: "registry.json", Label: "d/x"}
	shown, err := app.ShowDataset(t.Context(), h, req)
	if err != nil || shown.Version != "1.0" || len(shown.Versions) != 1 {
		t.Errorf("%+v, %v", shown, err)
	}
	got, err := app.Download(t.Context(), h, app.DownloadRequest{DatasetRequest: req})
	if err != nil || got.Tasks != 1 || len(got.Failed) != 1 || got.Output != "d-x" || got.Format != "rollout" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat(h.Path("d-x/one/task.toml")); err != nil {
		t.Error(err)
	}
	_, err = app.Download(t.Context(), h, app.DownloadRequest{DatasetRequest: req})
	refused(t, err, "d-x is not empty")
	_, err = app.ShowDataset(t.Context(), h, app.DatasetRequest{Registry: "registry.json", Label: "e"})
	refused(t, err, `there is no dataset "e"`)
	if len(out.lines) > 0 {
		t.Errorf("reported: %q", out.lines)
	}
}

func TestInitWritesOverNothing(t *testing.T) {
	h, _ := host(t)
	written, err := app.Init(t.Context(), h, app.InitRequest{Dir: "new"})
	if err != nil || len(written) < 5 {
		t.Fatalf("%q, %v", written, err)
	}
	for _, file := range written {
		if _, err := os.Stat(h.Path(file)); err != nil || !strings.HasPrefix(file, "new"+string(filepath.Separator)) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := os.Remove(h.Path(written[0])); err != nil {
		t.Fatal(err)
	}
	again, err := app.Init(t.Context(), h, app.InitRequest{Dir: "new"})
	refused(t, err, "exists already: nothing was written")
	if _, err := os.Stat(h.Path(written[0])); len(again) > 0 || err == nil {
		t.Errorf("wrote %q, %v", again, err)
	}
}

func TestExportWritesToAFileOrAWriter(t *testing.T) {
	h, _ := host(t)
	if _, err := app.Run(t.Context(), h, app.RunRequest{Job: app.JobRequest{File: "job.yaml"}}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	req := app.ExportRequest{Dir: "jobs/nightly", Format: "csv", To: &out}
	report, err := app.Export(t.Context(), h, req)
	if err != nil || report.Trials != 2 || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("%+v, %v:\n%s", report, err, &out)
	}
	req.Output = "deep/out.csv"
	if _, err := app.Export(t.Context(), h, req); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(h.Path("deep/out.csv")); err != nil || string(text) != out.String() {
		t.Errorf("the file has %d bytes, the writer got %d, %v", len(text), out.Len(), err)
	}
	req.Format = "xml"
	_, err = app.Export(t.Context(), h, req)
	refused(t, err, "--format xml: there are outputs")
}

func TestCleanRefusesUnknownProviders(t *testing.T) {
	h, _ := host(t)
	cleaned, err := app.Clean(t.Context(), h, app.CleanRequest{Provider: "nowhere"})
	refused(t, err, "there is no such provider (there are: fake)")
	if cleaned != nil {
		t.Errorf("%+v", cleaned)
	}
	if cleaned, err = app.Clean(t.Context(), h, app.CleanRequest{Provider: "fake", Images: true}); err != nil || cleaned.Images == nil || len(cleaned.Environments) > 0 {
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

func TestWhatTakesLongIsWatched(t *testing.T) {
	h, _ := host(t)
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
	if _, err := app.Run(t.Context(), h, app.RunRequest{Job: app.JobRequest{File: "job.yaml"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := app.Export(ctx, h, app.ExportRequest{Dir: "jobs/nightly", Format: "csv", To: io.Discard}); err != nil {
		t.Fatal(err)
	}
	expect("Exporting trials 2/2")
	stock := &stocked{Provider: fake.New(fake.Options{})}
	h.Providers[0].New = func(context.Context, map[string]any, providers.Host) (environment.Provider, error) { return stock, nil }
	if _, err := app.Clean(ctx, h, app.CleanRequest{Provider: "fake", Images: true, Others: true}); err != nil || stock.removed != 3 {
		t.Errorf("%d removed, %v", stock.removed, err)
	}
	expect("Removing environments 1/1", "Listing images 0/0", "Removing images 2/2")
}
