package docker

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
)

func TestCopiesOntoMountsAreRefused(t *testing.T) {
	t.Parallel()
	host := t.TempDir()
	canary := filepath.Join(host, "canary")
	if err := os.WriteFile(canary, []byte("alive"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := newProvider(t, map[string]any{"mounts": []any{host + ":/data/host"}})
	file := fstest.MapFS{"file": {Data: []byte("x"), Mode: 0o644}}
	for name, c := range map[string]environment.Copy{
		"onto a mount":               {Src: file, Dst: "/data/host"},
		"below a mount":              {Src: file, Dst: "/data/host/deep/er"},
		"clean, above a mount":       {Src: file, Dst: "/data", Clean: true},
		"clean, onto a mount":        {Src: file, Dst: "/data/./host/", Clean: true},
		"clean, the container's all": {Src: file, Dst: "/", Clean: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{
				Image: testImage, Labels: testLabels(t), Files: []environment.Copy{c},
			})
			if environment.KindOf(err) != environment.KindCopy {
				t.Errorf("at creation: %v", err)
			}
		})
	}
	env := newEnvironment(t, p, environment.CreateOptions{Files: []environment.Copy{{Src: file, Dst: "/data"}}})
	if err := env.CopyTo(t.Context(), environment.Copy{Src: file, Dst: "/data", Clean: true}); environment.KindOf(err) != environment.KindCopy {
		t.Errorf("later: %v", err)
	}
	if left, err := os.ReadDir(host); err != nil || len(left) != 1 {
		t.Errorf("the host's directory holds %v, %v", left, err)
	}
}
