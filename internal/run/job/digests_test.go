package job

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model/scripted"
	"github.com/org/rollout-action/internal/run/trial/experiment"
)

// The digests of a job decide which results a run reuses, resumes and compares, so they stay the
// same from version to version. testdata/digests has the configurations of the examples as jobs
// stored them, one in which every key has a value, and digests.json with their first digests. A new
// key must be left out of the JSON when it is not set.
func TestDigestsOfStoredJobsStayTheSame(t *testing.T) {
	var want map[string]map[string]string
	decodeFile(t, "testdata/digests.json", &want)
	files, err := filepath.Glob("testdata/digests/*.json")
	if err != nil || len(files) != len(want) {
		t.Fatalf("there are %d configurations for %d entries of digests.json (%v)", len(files), len(want), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		var cfg config.Job
		decodeFile(t, file, &cfg)
		if got := digestsOf(t, cfg); !maps.Equal(got, want[name]) {
			text, _ := json.MarshalIndent(map[string]any{name: got}, "", "  ")
			t.Errorf("the digests of %s have changed:\n%s", name, text)
		}
	}
}

// digestsOf returns all digests of a job by name.
func digestsOf(t *testing.T, cfg config.Job) map[string]string {
	t.Helper()
	plan, err := planDigest(cfg, result.Plan{})
	if err != nil {
		t.Fatal(err)
	}
	in := experiment.Inputs{Scripts: map[string]scripted.Script{}, Passed: map[string]string{"DATA": "x"}}
	for _, name := range slices.Sorted(maps.Keys(cfg.Models)) {
		if cfg.Models[name].Script != "" {
			in.Scripts[name] = scripted.Script{Repeat: true}
		}
	}
	d := experiment.DigestsOf(cfg, in)
	all := map[string]string{"plan": plan, "config": d.Config}
	for name, digest := range d.Agents {
		all["agent "+name] = digest
	}
	for _, s := range cfg.Judges {
		all["judge "+s.Name] = d.JudgeOf(s)
		s.Agent = judge.Call
		all["judge "+s.Name+", as a call"] = d.JudgeOf(s)
	}
	return all
}

func decodeFile(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
}
