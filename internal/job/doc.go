// Package job is many trials: the plan, the workers, the output tree, leftovers. It does not know
// providers, flags or terminals.
package job
