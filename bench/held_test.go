package main

import "testing"

// The record of a long conversation is on disk, not in memory.
func TestARecordIsNotHeld(t *testing.T) {
	megabytes, err := heldByRecord(t.Context(), t.TempDir())
	if err != nil || megabytes > 3 {
		t.Errorf("%g MB are held of a conversation of 50 MB, %v", megabytes, err)
	}
	t.Logf("%g MB are held", megabytes)
}
