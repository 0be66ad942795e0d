// Package arch checks the structure of this module. It contains only tests: which packages import
// which, of this module and of others, compared with docs/internals/architecture.md and
// docs/internals/dependencies.md; where the special paths in an environment are spelled; and that
// the names in the pages for developers exist.
package arch
