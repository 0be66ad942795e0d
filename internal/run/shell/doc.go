// Package shell is the agent of the preset shell: a loop with one tool, bash. It knows how to talk to models in each protocol. It does not know
// how commands reach an environment, and what a trial makes of its end.
package shell
