package suite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/org/rollout-action/internal/core/environment"
)

// Build builds an image and requires success.
func (s *Scene) Build(content map[string]string, change ...func(*environment.BuildOptions)) string {
	s.Helper()
	opts := environment.BuildOptions{Context: Files(content), Name: "environmenttest"}
	for _, c := range change {
		c(&opts)
	}
	ref, err := s.BuildWith(s.Ctx, opts)
	if err != nil {
		s.Fatalf("BuildImage: %v", err)
	}
	return ref
}

// BuildWith builds an image that is forgotten at the end of the check.
func (s *Scene) BuildWith(ctx context.Context, opts environment.BuildOptions) (ref string, err error) {
	s.Helper()
	s.Within("BuildImage", func() { ref, err = s.Provider.BuildImage(ctx, opts) })
	s.ForgetLater(ref)
	return ref, err
}

// From returns the beginning of a Dockerfile for this check only, so concurrent checks neither
// build nor remove its images.
func (s *Scene) From() string { return "FROM " + s.Opts.Image + "\n# " + s.Labels.Job + "\n" }

// ForgetLater removes an image at the end of the check.
func (s *Scene) ForgetLater(ref string) {
	if ref != "" && s.Opts.Forget != nil {
		s.Cleanup(func() { s.Opts.Forget(s.TB, ref) })
	}
}

// Key returns a key for a snapshot of this check.
func (s *Scene) Key(part string) string {
	sum := sha256.Sum256([]byte(s.Labels.Job + part))
	return hex.EncodeToString(sum[:])
}

// Snapshot makes an image from an environment and removes it at the end of the check.
func (s *Scene) Snapshot(b *Env, opts environment.SnapshotOptions) string {
	s.Helper()
	ref, err := environment.Snapshot(s.Ctx, b.Environment, opts)
	if err != nil {
		s.Fatalf("Snapshot: %v", err)
	}
	if err := b.Destroy(s.Ctx); err != nil {
		s.Fatalf("Destroy after Snapshot: %v", err)
	}
	if s.Opts.Forget != nil {
		s.Cleanup(func() { s.Opts.Forget(s, ref) })
	}
	return ref
}

// On returns a change that makes create use an image.
func On(ref string) func(*environment.CreateOptions) {
	return func(o *environment.CreateOptions) { o.Image = ref }
}
