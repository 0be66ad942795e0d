package diag_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/org/rollout-action/internal/lib/diag"
)

func TestDiagnosticString(t *testing.T) {
	tests := map[string]struct {
		d    diag.Diagnostic
		want string
	}{
		"everything is known": {
			diag.Diagnostic{File: "job.yaml", Line: 14, Column: 5, Message: `unknown key "n_attempt"`, Hint: `did you mean "n_attempts"?`},
			`job.yaml:14:5: unknown key "n_attempt" (did you mean "n_attempts"?)`,
		},
		"the column is unknown": {diag.Diagnostic{File: "job.yaml", Line: 14, Message: "bad"}, "job.yaml:14: bad"},
		"the whole file":        {diag.Diagnostic{File: "job.yaml", Column: 3, Message: "bad"}, "job.yaml: bad"},
		"a warning": {
			diag.Diagnostic{File: "task.toml", Line: 1, Column: 1, Message: "odd", Severity: diag.Warning},
			"task.toml:1:1: warning: odd",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.d.String(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestListErrIsNilWithoutErrors(t *testing.T) {
	warnings := diag.List{{File: "a", Message: "odd", Severity: diag.Warning}}
	if err := warnings.Err(); err != nil {
		t.Errorf("warnings alone are an error: %v", err)
	}
	if err := (diag.List)(nil).Err(); err != nil {
		t.Errorf("the empty list is an error: %v", err)
	}
	mixed := append(warnings, diag.Diagnostic{File: "a", Message: "bad"})
	var got diag.List
	if err := fmt.Errorf("load: %w", mixed.Err()); !errors.As(err, &got) || len(got) != 1 || got[0].Message != "bad" {
		t.Errorf("Err() = %v, want only the error", got)
	}
	if w := mixed.Warnings(); len(w) != 1 || w[0].Message != "odd" {
		t.Errorf("Warnings() = %v", w)
	}
}

func TestSortOrdersByPlaceThenMessage(t *testing.T) {
	l := diag.List{
		{File: "b", Line: 1, Message: "x"},
		{File: "a", Line: 2, Column: 1, Message: "x"},
		{File: "a", Line: 1, Column: 9, Message: "z"},
		{File: "a", Line: 1, Column: 9, Message: "y"},
		{File: "a", Message: "whole file"},
	}
	l.Sort()
	want := "a: whole file\na:1:9: y\na:1:9: z\na:2:1: x\nb:1: x"
	if l.Error() != want {
		t.Errorf("got\n%s\nwant\n%s", l.Error(), want)
	}
}

func TestNearest(t *testing.T) {
	keys := []string{"name", "n_attempts", "n_concurrent_trials", "agents", "datasets", "tasks", "metrics"}
	tests := map[string]struct{ word, want string }{
		"a letter is missing":            {"n_attempt", "n_attempts"},
		"two neighbours are swapped":     {"nmae", "name"},
		"a doubled letter":               {"aggents", "agents"},
		"dashes instead of underscores":  {"n-concurrent-trials", "n_concurrent_trials"},
		"capitals are ignored":           {"Name", "name"},
		"plural and singular":            {"dataset", "datasets"},
		"a different word has no match":  {"gate", ""},
		"the empty word has no match":    {"", ""},
		"a very long word has no match":  {string(make([]byte, 1000)), ""},
		"short words need one edit only": {"nam", "name"},
		"the only word that begins so":   {"n_con", "n_concurrent_trials"},
		"two words begin so":             {"n_", ""},
		"one letter has no match":        {"m", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := diag.Nearest(tt.word, keys); got != tt.want {
				t.Errorf("Nearest(%q) = %q, want %q", tt.word, got, tt.want)
			}
		})
	}
	if got := diag.DidYouMean("n_attempt", keys); got != `did you mean "n_attempts"?` {
		t.Errorf("DidYouMean = %s", got)
	}
	if got := diag.DidYouMean("zzz", keys); got != "" {
		t.Errorf("DidYouMean without a match = %s", got)
	}
}
