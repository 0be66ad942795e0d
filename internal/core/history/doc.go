// Package history keeps a compact line of JSON for each job, so that later runs can show how agents
// did over time. It knows no terminals, flags or reporters. Names in lines are untrusted.
package history
