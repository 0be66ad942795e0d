// Package action is the Action: it turns the inputs of a workflow's step into a request to package app, decides what of a
// checkout may be executed (the fork rule), and leaves the workspace as the runner needs it. It prints nothing but commands of
// workflows.
package action
