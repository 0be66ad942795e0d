package look

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/export"
)

// exportOptions are the flags of export.
type exportOptions struct {
	format, output string
	minReward      float64
	trainable      bool
}

// NewExportCommand returns the command export.
func NewExportCommand(v *command.Invocation) *cobra.Command {
	var opts exportOptions
	cmd := &cobra.Command{
		Use:   "export [JOB]",
		Short: "Write a job's trials as one file for other programs",
		Long: `Write every trial of a job that has a result, sorted by agent, dataset, task and attempt, from the files on
disk. It also works for jobs that were cancelled or killed, for shards and for merged jobs, and prints how many trials have
no result. JOB is a job's directory, or its name below jobs/; without it, the newest job is taken. The formats are

  outputs  a JSON object on each line, as in outputs.jsonl: prompt, reward, metrics, timing, error, stop
           condition, and how the reward compares with the group's (all attempts of an agent at a task)
  jsonl    a flat JSON object on each line, with every number of the trial's result.json
  csv      the same as a table. Text that a spreadsheet would take for a formula begins with an apostrophe
  sft      a JSON object on each line for fine-tuning: "messages" and "tools" in the form of OpenAI's chats. A
           trial has a line for each branch: its last conversation, those before a compaction, those of sub-agents
  atif     a tar archive with the trajectory.json of each trial

sft and atif leave out trials without a recorded conversation. The conversation of a trial is in "completion" and
"trajectory" of outputs, too.

"advantage" is the reward minus the group's mean, "advantage_normalized" that divided by the group's standard deviation;
both are empty while an attempt of the group has no reward.

Exit codes:
  0  written
  1  written, but some results cannot be read
  2  wrong usage
  3  rollout or its infrastructure failed`,
		Example: `  rollout export jobs/nightly --format csv --output nightly.csv
  rollout export jobs/nightly --format outputs | jq 'select(.reward == 1)'
  rollout export jobs/nightly --format sft --min-reward 1 --output train.jsonl`,
		Args: command.MaybeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, _, err := v.JobAnd(cmd.Context(), args)
			if err != nil {
				return err
			}
			if opts.output == "" && v.StdoutIsTerminal() {
				defer v.Works.Hide()() // progress would stand among the trials
			}
			var minReward *float64
			if cmd.Flags().Changed("min-reward") {
				minReward = &opts.minReward
			}
			report, err := inspect.Export(cmd.Context(), v.Host(), inspect.ExportRequest{Dir: dir, Format: opts.format, MinReward: minReward, Trainable: opts.trainable, Output: opts.output, To: v.Stdout})
			if err != nil {
				return err
			}
			return exported(v.Env, report)
		},
	}
	cmd.Flags().StringVar(&opts.format, "format", "outputs", "what to write: "+strings.Join(export.Formats, ", "))
	cmd.Flags().StringVar(&opts.output, "output", "", "write to this file instead of stdout")
	cmd.Flags().Float64Var(&opts.minReward, "min-reward", 0, "leave out trials with a lower reward, or without one")
	cmd.Flags().BoolVar(&opts.trainable, "trainable", false, "leave out trials of agents without trainable: true in the job file")
	flags.Wants(cmd.Flags(), "min-reward", "write a number")
	flags.Wants(cmd.Flags(), "format", "there are "+strings.Join(export.Formats, ", "))
	return cmd
}

// exported warns of what was not written.
func exported(e command.Env, report export.Report) error {
	if report.Missing > 0 {
		e.Warnf("%d of %s %s no result, and %s left out", report.Missing, plural.Count(report.Planned, "trial"), plural.Have(report.Missing), plural.Are(report.Missing))
	}
	if report.MissingPrompts > 0 {
		e.Warnf("the prompt of %s is null: no %s tells it, and the task's directory is not here or has changed", plural.Count(report.MissingPrompts, "task"), result.OutputsFile)
	}
	if report.NoConversation > 0 {
		e.Warnf("%s without a recorded conversation: left out", plural.Count(report.NoConversation, "trial"))
	}
	if report.Trials == 0 && report.Untrained > 0 {
		e.Warnf("nothing is written: no agent of the job has trainable: true")
	}
	for _, dir := range report.TooLong[:min(len(report.TooLong), 10)] {
		e.Warnf("the conversation of %s is too long for this format, and is left out", untrusted.Line(dir))
	}
	for _, unreadable := range report.Unreadable[:min(len(report.Unreadable), 10)] {
		e.Warnf("%v", unreadable)
	}
	if n := len(report.Unreadable); n > 0 {
		e.Warnf("%s cannot be read, and are left out", plural.Count(n, "result"))
		return &command.Failure{Code: command.ExitGate}
	}
	return nil
}
