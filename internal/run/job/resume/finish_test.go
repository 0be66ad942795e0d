package resume

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
)

func TestNothingIsPendingAfterAKillAtTheEnd(t *testing.T) {
	r := newRestart(t)
	want, err := result.Marshal(r.first())
	r.must(err)
	outputs, err := os.ReadFile(r.in(result.OutputsFile))
	r.must(err)
	r.must(os.Remove(r.in(result.ResultFile)))
	r.write(".tmp-result.json123", "{")
	r.must(os.WriteFile(r.in(result.OutputsFile), outputs[:len(outputs)-30], 0o644))
	stored := r.open()
	pending, err := stored.Pending(r.record(), RerunPolicy{})
	r.must(err)
	if len(pending.Keys) != 0 || pending.Kept != 4 {
		t.Fatalf("pending is %+v", pending)
	}
	r.must(stored.Finish(r.cfg, r.record(), pending.Earlier, job.Instructions(r.specs, nil)))
	for name, want := range map[string]string{result.ResultFile: string(want), result.OutputsFile: string(outputs)} {
		if got, err := os.ReadFile(r.in(name)); err != nil || string(got) != want {
			t.Errorf("%s is\n%s\n%v, want\n%s", name, got, err, want)
		}
	}
	if _, err := os.Stat(r.in(".tmp-result.json123")); err == nil {
		t.Error("the draft that was being written is still there")
	}
}

func TestFinishRepairsWhatAKillOrAFullDiskLeft(t *testing.T) {
	for name, damage := range map[string]func(r *restart, outputs []byte){
		"nothing is missing": func(*restart, []byte) {},
		"no outputs":         func(r *restart, _ []byte) { r.must(os.Remove(r.in(result.OutputsFile))) },
		"an output less": func(r *restart, text []byte) {
			r.write(result.OutputsFile, string(text[bytes.IndexByte(text, '\n')+1:]))
		},
		"an output that is torn": func(r *restart, text []byte) { r.write(result.OutputsFile, string(text)+"{") },
		"no metadata":            func(r *restart, _ []byte) { r.must(os.Remove(r.in(result.MetadataFile))) },
		"old metadata":           func(r *restart, _ []byte) { r.write(result.MetadataFile, "{}") },
		"a draft of a plan":      func(r *restart, _ []byte) { r.write(".tmp-plan.json123", "{") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRestart(t)
			r.first()
			before := map[string][]byte{}
			for _, name := range []string{result.OutputsFile, result.MetadataFile} {
				text, err := os.ReadFile(r.in(name))
				r.must(err)
				before[name] = text
			}
			damage(r, before[result.OutputsFile])
			stored := r.open()
			pending, err := stored.Pending(r.record(), RerunPolicy{})
			r.must(err)
			r.must(stored.Finish(r.cfg, r.record(), pending.Earlier, job.Instructions(r.specs, nil)))
			for name, want := range before {
				if got, err := os.ReadFile(r.in(name)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s is\n%s\n%v, want\n%s", name, got, err, want)
				}
			}
			if drafts, err := filepath.Glob(r.in(".tmp-*")); err != nil || len(drafts) > 0 {
				t.Errorf("drafts are left: %q, %v", drafts, err)
			}
		})
	}
}
