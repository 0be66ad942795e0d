// Package shell implements the agent of the preset shell: a loop with one tool, bash. It speaks
// each protocol of models. It does not know how commands reach an environment, or how a trial
// handles the end of the agent.
package shell
