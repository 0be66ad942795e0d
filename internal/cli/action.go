package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/action"
	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/proof"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/cli/look"
	"github.com/org/rollout-action/internal/cli/prove"
	"github.com/org/rollout-action/internal/cli/run"
	"github.com/org/rollout-action/internal/lib/diag"
)

// Args returns the arguments of a process that was started with these words: the image of the
// Action has the program under names that stand for its hidden verb, because GitHub's runner starts
// one path, without arguments.
func Args(words []string) []string {
	if len(words) == 0 {
		return nil
	}
	switch name := words[0][strings.LastIndexByte(words[0], '/')+1:]; name {
	case "rollout-action":
		return append([]string{"action"}, words[1:]...)
	case "rollout-post":
		return append([]string{"action", "post"}, words[1:]...)
	}
	return words[1:]
}

func newActionCommand(v *command.Invocation) *cobra.Command {
	return &cobra.Command{
		Use:    "action [post]",
		Hidden: true,
		Short:  "Run as a step of a GitHub workflow",
		Long: `What the container of the Action runs: it does what the inputs in the environment (INPUT_*) ask for.
"post" runs after the job, and removes what the step has left.
` + command.RunCodes,
		Example: `  rollout action
  rollout action post`,
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs), ValidArgs: []string{"post"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				action.Post(cmd.Context(), v.Host())
				return nil
			}
			return annotated(v, runStep(cmd.Context(), v))
		},
	}
}

// runStep runs the step: it reads the inputs, does what they ask for, and prints what that came to.
func runStep(ctx context.Context, v *command.Invocation) (err error) {
	step, err := action.Open(ctx, v.Host())
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := step.Close(); closeErr != nil {
			v.Warnf("%v", closeErr)
		}
	}()
	inside := v.Within(step.Host)
	switch req := step.Request.(type) {
	case stages.RunRequest:
		err = run.Run(ctx, inside, req, "auto", nil)
	case stages.JobRequest:
		err = run.Plan(ctx, inside, req, false)
	case app.DivideRequest:
		err = run.Divide(ctx, inside, req, false)
	case action.LookRequest:
		err = run.Look(ctx, inside, reporting.MergeRequest(req))
	case reporting.MergeRequest:
		err = run.Merge(ctx, inside, req, nil)
	case reporting.ReportRequest:
		err = look.Report(ctx, inside, req, nil)
	case proof.ProveRequest:
		err = prove.Prove(ctx, inside, req, flags.FormatText, "auto")
	case reporting.WithdrawRequest:
		err = reporting.Withdraw(ctx, inside.Host(), req)
	default:
		err = fmt.Errorf("the Action asks for %T, which no command does", req)
	}
	return step.Shown(err)
}

// annotated reports on the workflow's page what went wrong, and returns an error that needs no
// further report.
func annotated(v *command.Invocation, err error) error {
	var f *command.Failure
	var problems diag.List
	switch {
	case err == nil, errors.As(err, &f) && f.Err == nil:
		return err // nothing is left to report
	case errors.As(err, &problems):
		action.Annotate(v.Host(), problems)
		v.PrintProblems(problems)
	default:
		action.Annotate(v.Host(), err)
	}
	return &command.Failure{Code: exitCode(err, true)}
}
