// Package initproc runs as process 1 of a sandbox: it mounts the root file system, starts commands,
// reaps them, ends them, and copies files in and out. Once it has begun it cannot reach the
// machine's files. It knows nothing of trials or images.
package initproc
