// Package suite has what the chapters of the suite share: a Check of one promise, its Scene with
// the provider, and the Env that is an environment in it. It has no checks.
package suite
