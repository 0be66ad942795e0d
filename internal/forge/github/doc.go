// Package github connects a command in a GitHub workflow with GitHub: facts from the environment
// (ReadEnvironment), and the API (Client): the comment on a pull request and the result of an
// earlier run. Package step below it writes the files of a step.
package github
