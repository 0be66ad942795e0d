// Package dataset loads tasks: from a directory, a list of paths or a registry.
package dataset
