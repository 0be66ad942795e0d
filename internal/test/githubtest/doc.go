// Package githubtest is a small GitHub for tests: the part of its REST API that Rollout uses, with the rules that GitHub
// enforces (pages, sizes, permissions, limits, redirects). It does not know Rollout.
package githubtest
