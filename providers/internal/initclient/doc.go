// Package initclient asks process 1 of an environment (package initproc) to run commands and to
// copy files, and carries the streams of commands. It knows nothing of images, nor of how process 1
// is started.
package initclient
