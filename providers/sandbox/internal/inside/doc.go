// Package inside is what runs as process 1 of a sandbox: it mounts the root file system, starts commands,
// reaps them, ends them, and moves files in and out. It knows the machine no more once it has begun, and
// nothing of trials or images.
package inside
