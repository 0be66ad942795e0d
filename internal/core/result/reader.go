package result

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/lib/nofollow"
)

// TrialReader reads the results of many trials from directories that are open. It is not safe for
// concurrent use.
type TrialReader struct {
	// Brief leaves out what only the page of a trial shows: the times of its phases, and the ID of
	// an environment that is gone. This is half of the memory of a packed trial.
	Brief bool

	buffer       nofollow.Buffer
	environments map[plainEnvironment]*Environment
}

// Read reads the result.json in dir, a trial's directory, into a zero Trial, and reports whether
// there is one. Errors name the file by label, the path of the directory as shown to users. check
// may refuse the file's text; nil accepts all. A link is not followed. Trials may share their
// environments, which must not be changed.
func (r *TrialReader) Read(dir *os.File, label string, key Key, into *Trial, check func(text []byte, file string) error) (bool, error) {
	file := filepath.Join(label, ResultFile)
	text, err := r.buffer.ReadAt(dir, ResultFile, file, MaxTrialFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	if check != nil {
		if err := check(text, file); err != nil {
			return false, err
		}
	}
	if err := ParseTrial(text, key, into); err != nil {
		*into = Trial{}
		return false, fmt.Errorf("%s: %w", file, err)
	}
	if r.Brief {
		r.shorten(into)
	}
	return true, nil
}

// plainEnvironment has the fields of environments about which there is nothing else to say.
type plainEnvironment struct{ provider, image, imageID string }

// shorten leaves out of a trial what Brief says.
func (r *TrialReader) shorten(t *Trial) {
	t.Timestamps = Timestamps{StartedAt: t.Timestamps.StartedAt, EndedAt: t.Timestamps.EndedAt}
	e := t.Environment
	if e == nil || e.Preserved || e.Outcome != nil || len(e.Unenforced) > 0 || e.Base != nil || e.AgentLayer != nil || e.Network != nil || e.Verifier != nil {
		return
	}
	plain := plainEnvironment{e.Provider, e.Image, e.ImageID}
	if r.environments == nil {
		r.environments = map[plainEnvironment]*Environment{}
	}
	same := r.environments[plain]
	if same == nil {
		same = &Environment{Provider: e.Provider, Image: e.Image, ImageID: e.ImageID}
		r.environments[plain] = same
	}
	t.Environment = same
}
