// Package config turns a job file into a checked Job, with positions, defaults and expanded ${VAR},
// and defines its JSON Schema. It does not know how a job runs; the names and keys of providers are
// passed in.
package config
