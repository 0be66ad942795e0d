// Package files checks the contract of files: copies into and out of an environment, from hostile
// ones too, changes, and outcomes that are kept and restored.
package files
