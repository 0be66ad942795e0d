//go:build !linux

package git

// limitMemory does nothing: other systems let no process limit another.
func limitMemory(int, int64) {}
