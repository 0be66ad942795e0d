// Package githubtest implements a small GitHub for tests: the part of its REST API that Rollout
// uses, with the rules that GitHub enforces (pages, sizes, permissions, limits, redirects). It does
// not depend on Rollout.
package githubtest
