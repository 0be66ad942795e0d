package main

import "testing"

// The record of a long conversation is kept on disk, not in memory.
func TestARecordIsNotHeld(t *testing.T) {
	megabytes, err := heldByRecord(t.Context(), t.TempDir())
	if err != nil || megabytes > 3 {
		t.Errorf("%g MB are held of a conversation of 50 MB, %v", megabytes, err)
	}
	t.Logf("%g MB are held", megabytes)
}

// While a model answers, the gateway holds one copy of its request.
func TestATurnHoldsItsRequestOnce(t *testing.T) {
	held, err := heldByTurn(t.Context(), t.TempDir())
	if err != nil || held.waiting > 1.25*20 || held.recording > 2.5*20 || held.waiting < 20 {
		t.Errorf("%+v MB are held of a request of 20 MB, %v", held, err)
	}
}
