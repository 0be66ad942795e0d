package trial_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/run/trial/agentfiles"
)

// ownFiles returns a set with a program and a text.
func ownFiles(t *testing.T) *agentfiles.Set {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"run": "#!/bin/bash\ntrue\n", "lib/text": rand.Text() + "\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	set, _, err := agentfiles.Load(t.Context(), []agentfiles.Entry{{File: agent.File{Source: "agent"}, Path: dir}})
	if err == nil {
		err = set.Open(t.Context(), cache.New(t.TempDir(), 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	return set
}

func TestAgentsHaveTheirFiles(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		files := ownFiles(t)
		for name, caches := range map[string]bool{"in every trial": false, "in a layer": true} {
			t.Run(name, func(t *testing.T) {
				s := story{own: files, agent: agent.Agent{
					Name: "scripted", CacheInstall: &caches,
					Install: "# " + rand.Text() + "\ntest -x /agent/run && read -r text </agent/lib/text && echo \"$text installed\" >/agent/lib/text\n",
					Execute: "cp /agent/lib/text /logs/agent/text\n",
				}}
				sc := p.layerScene(t, s)
				tk := s.task(t, p)
				for _, o := range sc.runMany(s, tk, 3) {
					o.check(t, want{reward: "1"})
					text := o.file(t, "logs/agent/text")
					if len(text) < 20 || text[len(text)-len(" installed\n"):] != " installed\n" {
						t.Errorf("the agent finds %q", text)
					}
				}
			})
		}
	})
}

func TestOtherFilesNeedAnotherLayer(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		install := "# " + rand.Text() + "\ncp /agent/lib/text /opt/installed\n"
		s := story{own: ownFiles(t), agent: agent.Agent{Name: "scripted", CacheInstall: new(true), Install: install, Execute: "cp /opt/installed /logs/agent/text\n"}}
		sc := p.layerScene(t, s)
		tk := s.task(t, p)
		first := sc.run(s, tk, 1)
		s.own = ownFiles(t)
		second := sc.run(s, tk, 2)
		if a, b := first.file(t, "logs/agent/text"), second.file(t, "logs/agent/text"); a == b || second.Trial.Environment.AgentLayer.Cached {
			t.Errorf("with other files the agent is installed from the old ones: %q, %q", a, b)
		}
	})
}
