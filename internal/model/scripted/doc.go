// Package scripted is a model that answers by a script, in all protocols that the gateway knows,
// with streams and calls of tools. It needs no network, key or money, so that the plumbing of an
// agent can be tested anywhere, and Rollout itself.
package scripted
