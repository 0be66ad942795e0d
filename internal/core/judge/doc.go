// Package judge defines judges: their specification, their prompts, and how a reply becomes a
// score. It runs nothing: package trial runs judges as it runs agents.
package judge
