// Package arch checks the structure of this module. It has only tests: which packages import which, of this module and
// of others, compared with docs/internals/architecture.md and docs/internals/dependencies.md; where the special paths
// inside an environment are spelled; and that the pages for developers name what is there.
package arch
