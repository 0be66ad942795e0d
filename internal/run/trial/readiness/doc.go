// Package readiness waits until a new environment fulfils the conditions of the task: its users and
// working directory are there, and the image's and the task's health checks succeed.
package readiness
