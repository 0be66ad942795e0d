// Package docker runs environments as containers of a Docker engine, or of one that speaks its API.
// It talks to the engine alone: nothing is ever mounted from this process's own file system. It
// does not know trials, tasks or jobs.
package docker
