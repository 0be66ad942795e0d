// Package scripted implements a model that answers by a script, in all protocols of the gateway,
// with streams and tool calls. It needs no network, key or money, so it can test the plumbing of an
// agent anywhere, and Rollout itself.
package scripted
