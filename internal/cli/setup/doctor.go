package setup

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app/doctor"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/lib/plural"
)

// doctorCodes are the exit codes of doctor.
const doctorCodes = `
Exit codes:
  0    nothing is missing
  1    something is missing
  2    wrong usage
  3    rollout or its infrastructure failed
  130  cancelled`

// diagnosis is what doctor prints as JSON.
type diagnosis struct {
	SchemaVersion int              `json:"schema_version"`
	Version       string           `json:"version"` // as rollout version prints it
	OK            bool             `json:"ok"`      // nothing is missing
	Findings      []doctor.Finding `json:"findings"`
}

// NewDoctorCommand returns the command doctor.
func NewDoctorCommand(v *command.Invocation) *cobra.Command {
	var target flags.Job
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [JOB_FILE | DATASET | TASK]",
		Short: "Check whether this machine can run jobs, or one job",
		Long: `Check what jobs need here, and print for each whether it is there, and the way out if it is not: providers, git and free
disk space; in a workflow of GitHub Actions also what its token may read, and whether the workflow's permissions let it
comment. With a job file the job's provider is asked whether it would take the trials, and each variable that the job
and its tasks need is listed: whether it is set, never its value. What the token lacks is a note, unless the job fails
without a baseline (gate.on_no_baseline). Nothing is started and nothing is written. A provider that does not work here
is only a note if the job uses another one, or, without a job, if one of them works. rollout validate checks the job
file and its tasks in full, and rollout validate --models asks the models.
` + doctorCodes,
		Example: `  rollout doctor
  rollout doctor job.yaml
  rollout doctor job.yaml --env-file .env --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return command.OneArg("a job file or a directory of tasks")(cmd, args)
			}
			return onlyWithJob(cmd)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req := stages.JobRequest{}
			if len(args) > 0 {
				var err error
				if req, err = target.Request(args[0]); err != nil {
					return err
				}
			}
			found, err := doctor.Diagnose(cmd.Context(), v.Host(), req)
			if err != nil {
				return err
			}
			ok := doctor.OKs(found)
			if asJSON {
				err = v.PrintJSON(diagnosis{1, cmd.Root().Version, ok, found})
			} else {
				err = printDiagnosis(v, cmd.Root().Version, found)
			}
			if err == nil && !ok {
				err = &command.Failure{Code: command.ExitGate}
			}
			return err
		},
	}
	target.AddSelection(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: ok, and the findings with area, name, state, text and hint")
	return cmd
}

// onlyWithJob refuses flags that change a job if there is none.
func onlyWithJob(cmd *cobra.Command) error {
	var problem error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "json" && problem == nil {
			problem = command.Usagef("--%s changes a job: name the job file, as in: rollout doctor job.yaml --%s …", f.Name, f.Name)
		}
	})
	return problem
}

// printDiagnosis prints findings as text.
func printDiagnosis(v *command.Invocation, version string, found []doctor.Finding) error {
	fmt.Fprintln(v.Stdout, version)
	marks := map[doctor.State]string{doctor.OK: "✓", doctor.Note: "–", doctor.Missing: "✗"}
	w := tables.New(v.Stdout)
	missing := 0
	for _, f := range found {
		text := f.Text
		if f.Hint != "" {
			text += " (" + strings.TrimSuffix(f.Hint, ".") + ")"
		}
		w.Row(marks[f.State], f.Area, f.Name, text)
		if f.State == doctor.Missing {
			missing++
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	conclusion := "nothing is missing"
	if missing > 0 {
		conclusion = plural.Count(missing, "thing") + " missing"
	}
	_, err := fmt.Fprintln(v.Stdout, conclusion)
	return err
}
