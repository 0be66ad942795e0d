package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/action"
	"github.com/org/rollout-action/internal/app"
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

func newActionCommand(v *invocation) *cobra.Command {
	return &cobra.Command{
		Use:    "action [post]",
		Hidden: true,
		Short:  "Run as a step of a GitHub workflow",
		Long: `What the container of the Action runs: it does what the inputs in the environment (INPUT_*) ask for.
"post" runs after the job, and removes what the step has left.
` + exitCodes,
		Example: `  rollout action
  rollout action post`,
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs), ValidArgs: []string{"post"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				action.Post(cmd.Context(), v.host())
				return nil
			}
			return v.annotated(v.action(cmd.Context()))
		},
	}
}

// action runs the step: it reads the inputs, does what they ask for, and prints what that came to.
func (v *invocation) action(ctx context.Context) (err error) {
	step, err := action.Open(ctx, v.host())
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := step.Close(); closeErr != nil {
			v.warnf("%v", closeErr)
		}
	}()
	inside := v.within(step.Host)
	switch req := step.Request.(type) {
	case app.RunRequest:
		err = inside.run(ctx, req, "auto", nil)
	case app.JobRequest:
		err = inside.plan(ctx, req, false)
	case app.DivideRequest:
		err = inside.divide(ctx, req, false)
	case app.MergeRequest:
		err = inside.merge(ctx, req, nil)
	case app.ReportRequest:
		err = inside.report(ctx, req, nil)
	case app.ProveRequest:
		err = inside.prove(ctx, req, formatText, "auto")
	case app.WithdrawRequest:
		err = app.Withdraw(ctx, inside.host(), req)
	default:
		err = fmt.Errorf("the Action asks for %T, which no command does", req)
	}
	return step.Shown(err)
}

// annotated reports on the workflow's page what went wrong, and returns an error that needs no
// further report.
func (v *invocation) annotated(err error) error {
	var f *failure
	var problems diag.List
	switch {
	case err == nil, errors.As(err, &f) && f.err == nil:
		return err // nothing is left to report
	case errors.As(err, &problems):
		action.Annotate(v.host(), problems)
		v.printProblems(problems)
	default:
		action.Annotate(v.host(), err)
	}
	return &failure{code: exitCode(err, true)}
}
