package tables

import (
	"strings"
	"testing"
)

func TestTableAlignsByTheCellsOfATerminal(t *testing.T) {
	var b strings.Builder
	table := New(&b)
	table.Row("TASK", "PASSED", "WHAT")
	table.Row("修复构建", "1", "a long last cell makes no column wider")
	table.Row("🚀 ship", "–", "x")
	table.Row("end")
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = "TASK      PASSED  WHAT\n" +
		"修复构建  1       a long last cell makes no column wider\n" +
		"🚀 ship   –       x\n" +
		"end\n"
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
