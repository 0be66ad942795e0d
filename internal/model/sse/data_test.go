package sse

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestDataReaderReturnsDataOfWholeEvents(t *testing.T) {
	r := NewDataReader(strings.NewReader(": hello\n\nevent: a\ndata: 1\ndata: 2\n\nid: 7\n\ndata:3\r\n\r\ndata: 4"))
	for _, want := range []string{"1\n2", "3", "4"} {
		if data, err := r.Next(); err != nil || string(data) != want {
			t.Errorf("%q, %v; want %q", data, err, want)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	cut := NewDataReader(strings.NewReader("data: {\"a\":\n\ndata: {\"a\""))
	if data, err := cut.Next(); err != nil || string(data) != `{"a":` {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := cut.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}
