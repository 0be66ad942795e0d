package inspect_test

import (
	"os"
	"testing"

	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/test/apptest"
)

func TestDatasetsOfARegistry(t *testing.T) {
	h, out := apptest.New(t)
	registry := `[{"name": "d/x", "version": "1.0", "description": "", "metrics": [], "format": "rollout",
		"tasks": [{"name": "one", "git_url": "", "git_commit_id": "", "path": "evals/one"}, {"name": "two", "git_url": "", "git_commit_id": "", "path": "evals/two"}]}]`
	if err := os.WriteFile(h.Path("registry.json"), []byte(registry), 0o644); err != nil {
		t.Fatal(err)
	}
	listed, err := inspect.ListDatasets(t.Context(), h, "registry.json", nil)
	if err != nil || len(listed.List) != 1 || !listed.List[0].Default || listed.List[0].Tasks != 2 {
		t.Errorf("%+v, %v", listed, err)
	}
	req := inspect.DatasetRequest{Registry: "registry.json", Label: "d/x"}
	shown, err := inspect.ShowDataset(t.Context(), h, req)
	if err != nil || shown.Version != "1.0" || len(shown.Versions) != 1 {
		t.Errorf("%+v, %v", shown, err)
	}
	got, err := inspect.Download(t.Context(), h, inspect.DownloadRequest{DatasetRequest: req})
	if err != nil || got.Tasks != 1 || len(got.Failed) != 1 || got.Output != "d-x" || got.Format != "rollout" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat(h.Path("d-x/one/task.toml")); err != nil {
		t.Error(err)
	}
	_, err = inspect.Download(t.Context(), h, inspect.DownloadRequest{DatasetRequest: req})
	apptest.Refused(t, err, "d-x is not empty")
	_, err = inspect.ShowDataset(t.Context(), h, inspect.DatasetRequest{Registry: "registry.json", Label: "e"})
	apptest.Refused(t, err, `there is no dataset "e"`)
	if len(out.Lines) > 0 {
		t.Errorf("reported: %q", out.Lines)
	}
}
