// Package actiontest contains only tests: they run the Action as GitHub does. One starts the image
// as GitHub's runner starts a container action; others use act, a runner of workflows, for the
// workflows in examples/workflows and the reusable one. All of them run real trials on the Docker
// engine of this machine.
package actiontest
