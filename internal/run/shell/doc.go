// Package shell implements the agent of the preset shell: a loop with one tool, bash. It supports
// all protocols of models. Its caller provides the function that runs commands in an environment,
// and handles the end of the agent.
package shell
