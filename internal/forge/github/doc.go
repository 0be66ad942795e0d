// Package github connects a command in a GitHub workflow with GitHub: facts from the environment
// (ReadEnvironment), the files that a step writes for its runner (SetOutput, AppendSummary), and
// the API (Client): the comment on a pull request and the result of an earlier run.
package github
