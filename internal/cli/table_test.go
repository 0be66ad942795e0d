package cli

import (
	"strings"
	"testing"
)

func TestTableAlignsByTheCellsOfATerminal(t *testing.T) {
	var b strings.Builder
	table := newTable(&b)
	table.row("TASK", "PASSED", "WHAT")
	table.row("修复构建", "1", "a long last cell makes no column wider")
	table.row("🚀 ship", "–", "x")
	table.row("end")
	if err := table.flush(); err != nil {
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
