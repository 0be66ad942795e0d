// Package lifecycle checks how environments begin and end, their labels, and their limits.
package lifecycle
