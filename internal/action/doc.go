// Package action implements the GitHub Action: it turns the inputs of a workflow step into a
// request to package app, decides which files of a checkout may be executed (the fork rule), and
// leaves the workspace as the runner needs it. It prints only workflow commands.
package action
