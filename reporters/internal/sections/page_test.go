package sections

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/test/reporttest"
)

// Rows that cannot fit are not made, and whether they are made changes no page.
func TestFitMakesFewRowsThatCannotFit(t *testing.T) {
	details := []Detail{{All: true, Rows: 1 << 30}, {Rows: 1 << 30}, {Rows: 100, Short: true}, {Rows: 1}, {}}
	inputs := reporttest.Inputs()
	inputs["large"] = reporttest.Large(400)
	longest := 0
	render := func(p *Page) string {
		text := Join(p.Title(), p.Changes(), p.Failed(), p.Everything())
		longest = max(longest, len(text))
		return text
	}
	for name, in := range inputs {
		for limit := 500; limit < 100_000; limit *= 2 {
			longest = 0
			got := Fit(in, limit, details, render)
			if most := 10 * limit; longest > most {
				t.Errorf("%s, %d bytes: a page of %d bytes was made", name, limit, longest)
			}
			if want := newPage(in).fit(limit, details, render); got != want {
				t.Errorf("%s, %d bytes: got %d bytes, without the bound %d:\n%s\n%s", name, limit, len(got), len(want), got, want)
			}
		}
	}
}

// Tasks that were added or removed have rows, too, and all of them may fit with fewer columns.
func TestFitFillsThePageWithRows(t *testing.T) {
	p := &Page{cases: make([]report.Case, 1), other: make([]changed, 500)}
	render := func(p *Page) string {
		row := "0123456789"
		if p.detail.Short {
			row = row[:5]
		}
		return strings.Repeat(row, min(len(p.other), p.detail.Rows))
	}
	for short, want := range map[bool]int{false: 250, true: 500} {
		got := p.fit(2500, []Detail{{Rows: 1000}, {Rows: 20, Short: short}}, render)
		if len(got) != 2500 {
			t.Errorf("short rows: %v: the page has %d bytes, want those of %d rows", short, len(got), want)
		}
	}
}
