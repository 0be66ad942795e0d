package json

import (
	"fmt"
	"io"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/prove"
)

// ProofSchemaVersion is incremented when a field of ProofDocument changes its meaning or is
// removed. New fields do not change it.
const ProofSchemaVersion = 1

// ProofDocument is the JSON object about proven tasks. Rewards have no unit, durations are seconds.
// Lists are never null. Texts from outside are not changed; the file is safe to print.
type ProofDocument struct {
	SchemaVersion int           `json:"schema_version"`
	Outcome       prove.Outcome `json:"outcome"`  // passed, failed, incomplete or cancelled
	Passed        bool          `json:"passed"`   // whether the command ends with 0
	Headline      string        `json:"headline"` // "11 of 12 proven, 1 flaky"
	// JobDir is the directory with the runs; "" if nothing was run.
	JobDir   string                `json:"job_dir"`
	Verdicts map[prove.Verdict]int `json:"verdicts"` // how many tasks came to each; every verdict has an entry
	Tasks    []ProofTask           `json:"tasks"`    // in the order of the datasets, by name
	Notes    []string              `json:"notes"`
}

// ProofTask has the verdict on a task.
type ProofTask struct {
	Dataset string        `json:"dataset_name"`
	Task    string        `json:"task_name"`
	Path    string        `json:"path"` // of its directory in its repository; "" outside git
	Verdict prove.Verdict `json:"verdict"`
	Passed  bool          `json:"passed"`
	// OracleWanted and NopWanted are the numbers of runs that there should be.
	OracleWanted int             `json:"oracle_wanted"`
	NopWanted    int             `json:"nop_wanted"`
	Oracle       []ProofRun      `json:"oracle"` // runs of the solution, by number
	Nop          []ProofRun      `json:"nop"`
	DurationSec  float64         `json:"duration_sec"` // of all runs together
	Findings     []prove.Finding `json:"findings"`     // errors first, then by place
}

// ProofRun is a run of an agent at a task.
type ProofRun struct {
	Attempt          int           `json:"attempt"`
	Reward           *float64      `json:"reward"`
	Error            *result.Error `json:"error"`
	VerifierExitCode *int          `json:"verifier_exit_code"`
	DurationSec      float64       `json:"duration_sec"`
	Dir              string        `json:"dir"` // below the job's directory
}

// Proof writes the report of rollout validate --run, a ProofDocument.
func Proof(w io.Writer, in prove.Report) error {
	doc := ProofDocument{
		SchemaVersion: ProofSchemaVersion, Outcome: in.Outcome(), Passed: in.Outcome() == prove.Passed, Headline: in.Headline(), JobDir: in.Dir,
		Verdicts: in.Counts(), Tasks: []ProofTask{}, Notes: append([]string{}, in.Notes...),
	}
	for _, p := range in.Tasks {
		doc.Tasks = append(doc.Tasks, ProofTask{
			Dataset: p.Dataset, Task: p.Task, Path: p.Path, Verdict: p.Verdict, Passed: p.Passed(),
			OracleWanted: p.Runs.OracleWanted, NopWanted: p.Runs.NopWanted, Oracle: runsOf(p.Runs.Oracle), Nop: runsOf(p.Runs.Nop),
			DurationSec: p.Seconds(), Findings: append([]prove.Finding{}, p.Findings...),
		})
	}
	data, err := result.Marshal(doc)
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	_, err = io.WriteString(w, untrusted.JSON(string(data)))
	return err
}

func runsOf(trials []result.Trial) []ProofRun {
	out := []ProofRun{}
	for _, t := range trials {
		out = append(out, ProofRun{
			Attempt: t.Attempt, Reward: t.Reward, Error: t.Error, VerifierExitCode: t.VerifierExitCode,
			DurationSec: t.Durations.TotalSec, Dir: t.Dir(),
		})
	}
	return out
}
