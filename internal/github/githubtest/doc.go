// Package githubtest is a small GitHub for tests: the part of its REST API that Rollout uses, with the rules that the real
// one enforces (pages, sizes, permissions, limits, redirects). It knows nothing of Rollout.
package githubtest
