package fake_test

import (
	"io"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/fake"
)

// BenchmarkTrial measures a whole small trial: an environment with files, three scripts, the tests
// in and the logs out.
func BenchmarkTrial(b *testing.B) {
	p := fake.New(fake.Options{World: fake.NewWorld()})
	instruction := environment.Copy{Src: fstest.MapFS{"instruction.md": {Data: []byte("Write hello."), Mode: 0o644}}, Dst: "/task"}
	logs := environment.Copy{Src: fstest.MapFS{}, Dst: "/logs/verifier", Mode: 0o777}
	tests := environment.Copy{Src: fstest.MapFS{"test.sh": {Data: []byte("grep -q hello /work/out && echo 1 > /logs/verifier/reward.txt\n"), Mode: 0o755}}, Dst: "/tests", Clean: true}
	dst := b.TempDir()
	b.ReportAllocs()
	for b.Loop() {
		env, err := p.CreateEnvironment(b.Context(), environment.CreateOptions{
			Image: "debian:bookworm", Files: []environment.Copy{instruction, logs}, Env: map[string]string{"A": "b"},
		})
		if err != nil {
			b.Fatal(err)
		}
		exec := func(script string) {
			code, err := env.Exec(b.Context(), script, environment.ExecOptions{Stdout: io.Discard, Stderr: io.Discard, Timeout: 1e12})
			if err != nil || code != 0 {
				b.Fatal(code, err)
			}
		}
		exec("mkdir -p /work")
		exec("cat /task/instruction.md; echo hello > /work/out")
		if err := env.CopyTo(b.Context(), tests); err != nil {
			b.Fatal(err)
		}
		exec("bash /tests/test.sh")
		// Existing files in the destination are skipped: this measures everything but writing the
		// file.
		if _, err := env.CopyFrom(b.Context(), "/logs", dst, environment.ExtractOptions{}); err != nil {
			b.Fatal(err)
		}
		if err := env.Destroy(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
