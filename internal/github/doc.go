// Package github is GitHub as seen by a command in one of its workflows: facts from the environment, workflow commands,
// the files that a step leaves for its runner, and the API. It does not know what is said there.
package github
