package merge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

func eventTimes(lines []string) []int64 {
	var times []int64
	for _, l := range lines {
		if l != "" {
			times = append(times, eventTime([]byte(l)))
		}
	}
	return times
}

func TestEventsOfOneShardStayInTheirOrder(t *testing.T) {
	s := newScene(t)
	s.Shards(2)
	line := func(at string, n int) string {
		return fmt.Sprintf(`{"time":"2026-01-02T03:04:%sZ","kind":"%d"}`, at, n) + "\n"
	}
	long := strings.Repeat("x", maxEvent+1<<17)
	s.Write(s.In("shards", "1", result.EventsFile), line("05.9", 1)+line("05.12", 2)+"not an event\n\n"+`{"kind":"3"}`+"\n"+line("09", 6)+`{"time":"`+long+"\"}\n"+line("09", 7))
	s.Write(s.In("shards", "2", result.EventsFile), line("05.85", 0)+line("06", 4)+line("07.000000001", 5)+`{"time":"2026`)
	s.mustMerge()
	want := line("05.85", 0) + line("05.9", 1) + line("05.12", 2) + `{"kind":"3"}` + "\n" + line("06", 4) + line("07.000000001", 5) + line("09", 6) + line("09", 7)
	if got := s.Read(s.In("jobs", "nightly", result.EventsFile)); got != want {
		t.Errorf("got\n%s", got[:min(len(got), 2000)])
	}
}
