// Package github is GitHub as seen by a command in one of its workflows: facts from the environment (FromEnv), the files
// that a step leaves for its runner (SetOutput, AppendSummary), and the API (Client): the comment on a pull request and
// the result of an earlier run. It does not know what is said there.
package github
