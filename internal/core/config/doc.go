// Package config turns a job file into a checked Job: positions, defaults, ${VAR}, JSON Schema. It
// does not know how a job runs; the names and keys of providers are passed in.
package config
