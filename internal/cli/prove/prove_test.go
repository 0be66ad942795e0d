package prove

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app/calibrate"
	"github.com/org/rollout-action/internal/app/proof"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/agreement"
	"github.com/org/rollout-action/internal/lib/diag"
)

func TestTheLastLineOfValidate(t *testing.T) {
	for want, tc := range map[string]struct {
		checked proof.Checked
		wrong   int
	}{
		"job.yaml: 2 problems": {proof.Checked{File: "job.yaml", Tasks: 3}, 2},
		"job.yaml is valid: 2 agents × 3 tasks × 1 attempt = 6 trials":      {proof.Checked{File: "job.yaml", Agents: 2, Tasks: 3, Attempts: 1, Trials: 6}, 0},
		"evals is valid: 3 tasks, 1 without a solution (--run proves them)": {proof.Checked{File: "evals", Implied: true, Tasks: 3, NoSolution: 1}, 0},
	} {
		if got := validity(tc.checked, tc.wrong); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Many warnings that differ only in their places are counted, and equal ones are printed once.
func TestManyWarningsAreCounted(t *testing.T) {
	var list diag.List
	for i := range 8 {
		list = append(list, diag.Diagnostic{File: fmt.Sprintf("t%d/tests/test.sh", i), Line: 1, Severity: diag.Warning, Message: "no #! [shebang]"})
		list = append(list, diag.Diagnostic{File: fmt.Sprintf("t%d", i), Message: "has no image"})
		list = append(list, diag.Diagnostic{File: "lint.toml", Severity: diag.Warning, Message: "unknown key"})
	}
	var out strings.Builder
	printProblems(&out, list)
	want := "t0/tests/test.sh:1: warning: no #! [shebang]\nt0: has no image\nlint.toml: warning: unknown key\n" +
		"t1/tests/test.sh:1: warning: no #! [shebang]\nt1: has no image\nt2/tests/test.sh:1: warning: no #! [shebang]\nt2: has no image\n" +
		"t3: has no image\nt4: has no image\nt5: has no image\nt6: has no image\n5 warnings more: no #! [shebang] (--format json lists them)\nt7: has no image\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAModelThatAnswersFromRecordsIsNotTimed(t *testing.T) {
	price := 0.25
	models := []stages.AskedModel{
		{Name: "m", Asked: "big", Latency: 1200 * time.Millisecond, Input: &price, Output: &price},
		{Name: "r", Asked: "big", Replays: true},
	}
	if got := answered(models[0]); got != "model m: big answered in 1.2 s; $0.25 for a million tokens of input, $0.25 of output" {
		t.Error(got)
	}
	if got := answered(models[1]); !strings.Contains(got, "answers from records, and was not asked; price not known") {
		t.Error(got)
	}
	if list := askedOf(models); list[0].LatencySec == nil || list[1].LatencySec != nil {
		t.Errorf("%+v", list)
	}
}

func TestAKappaInWords(t *testing.T) {
	for kappa, want := range map[float64]string{0.1: "hardly better", 0.4: "somewhat better", 0.6: "not reliable", 0.8: "much better", 0.9: "close to full"} {
		if got := inWords(kappa); !strings.Contains(got, want) {
			t.Errorf("%g is %q, want %q", kappa, got, want)
		}
	}
	low, high := 0.741, -0.001
	if got := interval(&agreement.Estimate{Value: 0.86, Low: &low, High: &high}); got != "0.86 (between 0.74 and 0.00)" {
		t.Error(got)
	}
}

func TestFlagsOfJudgesCheckThatNeedEachOther(t *testing.T) {
	for name, tc := range map[string]struct {
		opts    judgesCheckOptions
		changed string
		want    string // in the error; "": there is none
	}{
		"a template has a default file":  {judgesCheckOptions{template: true, format: "text"}, "", ""},
		"a sample without a template":    {judgesCheckOptions{format: "text", req: calibrate.CheckRequest{Sample: 3}}, "sample", "--sample is about --template"},
		"a smaller share without labels": {judgesCheckOptions{format: "text", minAgree: 0.8}, "min-agreement", "--min-agreement needs labels"},
		"a share that is none":           {judgesCheckOptions{format: "text", minAgree: 1.5}, "min-agreement", "want a number from 0 to 1"},
		"a format":                       {judgesCheckOptions{format: "csv"}, "", "want text or json"},
	} {
		err := tc.opts.check(func(flag string) bool { return flag == tc.changed })
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if tc.opts.template && tc.opts.req.Labels != labelsFile {
			t.Errorf("%s: the file is %q", name, tc.opts.req.Labels)
		}
	}
}
