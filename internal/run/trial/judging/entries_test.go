package judging

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// Artifacts of earlier versions of Rollout have no entries, and files on disk may have been
// changed.
func TestArtifactsFromDisk(t *testing.T) {
	kept := result.Artifact{Source: "/app", Path: "artifacts/app", Entries: "artifact-entries/1.jsonl"}
	const good = `{"path":".","dir":true,"mode":"0700","uid":5}` + "\n" + `{"path":".git","file":"_git","dir":true,"mode":"0755"}` + "\n" + `{"path":".git/HEAD","file":"_git/HEAD","mode":"0600"}` + "\n"
	for name, test := range map[string]struct {
		change  func(e *Evidence, list string)
		entries int
		why     string
	}{
		"as it was kept":      {func(*Evidence, string) {}, 3, ""},
		"an earlier version":  {func(e *Evidence, _ string) { e.kept[0].Entries = "" }, 0, ""},
		"another directory":   {func(e *Evidence, _ string) { e.kept[0].Entries = "artifacts/1.jsonl" }, 0, "is not in artifact-entries"},
		"a link":              {func(_ *Evidence, list string) { _ = os.Rename(list, list+"2"); _ = os.Symlink(list+"2", list) }, 0, "is a link, no file or too large"},
		"no JSON":             {rewrite("{"), 0, "cannot be read"},
		"a path that is out":  {rewrite(strings.Replace(good, `"path":".git/HEAD"`, `"path":"../HEAD"`, 1)), 0, "its path is not one below the directory"},
		"a file that is out":  {rewrite(strings.Replace(good, `"file":"_git/HEAD"`, `"file":"../HEAD"`, 1)), 0, "its path is not one below the directory"},
		"a setuid file":       {rewrite(strings.Replace(good, `"mode":"0600"`, `"mode":"4755"`, 1)), 0, "its mode is none"},
		"an owner out of all": {rewrite(strings.Replace(good, `"uid":5`, `"uid":-5`, 1)), 0, "its owner is none"},
		"two with one name":   {rewrite(good + good), 0, "there is another one"},
	} {
		e := &Evidence{trialDir: t.TempDir(), kept: []result.Artifact{kept}}
		list := filepath.Join(e.trialDir, "artifact-entries", "1.jsonl")
		for file, text := range map[string]string{list: good, filepath.Join(e.trialDir, "artifacts/app/_git/HEAD"): "main"} {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		test.change(e, list)
		got, err := e.artifacts([]string{"/app"})
		switch {
		case test.why == "" && (err != nil || len(got) != 1 || len(got[0].Entries) != test.entries):
			t.Errorf("%s: %+v, %v", name, got, err)
		case test.why != "" && (err == nil || !strings.Contains(err.Error(), test.why)):
			t.Errorf("%s: %v", name, err)
		}
	}
}

func rewrite(text string) func(*Evidence, string) {
	return func(_ *Evidence, list string) { _ = os.WriteFile(list, []byte(text), 0o644) }
}
