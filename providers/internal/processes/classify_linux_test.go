package processes

import (
	"slices"
	"testing"
)

// Process 100 is the command, which began at 50 in session 100; process 1 is in session 1.
func TestClassify(t *testing.T) {
	first := stat{Process: Process{1, 1}, state: 'S', session: 1, threads: 5}
	command := stat{Process: Process{100, 50}, state: 'S', parent: 1, session: 100, threads: 1}
	p := func(pid int, start int64, parent, session int) stat {
		return stat{Process: Process{pid, start}, state: 'S', parent: parent, session: session, threads: 1}
	}
	in := func(state byte, threads int, s stat) stat {
		s.state, s.threads = state, threads
		return s
	}
	for _, tc := range []struct {
		name    string
		list    []stat // in addition to the first and the command
		others  []Process
		victims []int // in addition to the command
		unclear bool
	}{
		{name: "the command"},
		{name: "a child", list: []stat{p(101, 51, 100, 100)}, victims: []int{101}},
		{name: "an orphan of its own session", list: []stat{p(101, 51, 1, 101)}, victims: []int{101}},
		{name: "an orphan with a lower id, later", list: []stat{p(7, 51, 1, 7)}, victims: []int{7}},
		{name: "an unrelated process", list: []stat{p(90, 49, 1, 90)}},
		{name: "an unrelated process with a higher id", list: []stat{p(101, 49, 1, 101)}},
		{name: "an unrelated process's grandchild in its own session", list: []stat{p(90, 49, 1, 90), p(101, 51, 90, 101), p(102, 51, 101, 102)}},
		{name: "an orphan in an unrelated process's session", list: []stat{p(90, 49, 1, 90), p(101, 51, 1, 90)}},
		{name: "an orphan in a dead unrelated process's session", list: []stat{in('Z', 1, p(90, 49, 1, 90)), p(101, 51, 1, 90)}},
		{name: "a child of process 1 in its session", list: []stat{p(101, 51, 1, 1)}},
		{name: "session 0 is everybody's whose leader is outside", list: []stat{p(90, 49, 1, 0), p(101, 51, 1, 0)}, victims: []int{101}},
		{name: "a stranger from outside", list: []stat{p(101, 51, 0, 0), p(102, 51, 101, 102)}},
		{name: "a later command that is named", list: []stat{p(101, 51, 1, 101), p(102, 51, 101, 102), p(103, 51, 1, 101)}, others: []Process{{101, 51}}},
		{name: "a later command with the id of one that was named", list: []stat{p(101, 51, 1, 101)}, others: []Process{{101, 50}}, victims: []int{101}},
		{name: "a dead child", list: []stat{in('Z', 1, p(101, 51, 100, 100)), in('X', 0, p(102, 51, 100, 100)), in('x', 0, p(103, 51, 100, 100))}},
		{name: "a child whose first thread is dead", list: []stat{in('Z', 2, p(101, 51, 100, 101))}, victims: []int{101}},
		{name: "a stopped child", list: []stat{in('T', 1, p(101, 51, 100, 100))}, victims: []int{101}},
		{name: "a lower id in the same tick was there before", list: []stat{p(99, 50, 1, 99)}},
		{name: "a higher id in the same tick came later", list: []stat{p(101, 50, 1, 101)}, victims: []int{101}},
		{name: "a lower id in the same tick is a child's after the ids started over", list: []stat{p(2, 50, 100, 2), p(3, 50, 2, 3)}, victims: []int{2, 3}},
		{name: "a parent that is missing", list: []stat{p(102, 51, 101, 102)}, unclear: true},
		{name: "a missing parent does not matter in an unrelated process's session", list: []stat{p(90, 49, 1, 90), p(102, 51, 101, 90)}},
		{name: "a circle", list: []stat{p(102, 51, 101, 102), p(101, 51, 102, 101)}, unclear: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, unclear := classify(append([]stat{first, command}, tc.list...), command.Process, tc.others)
			ids := []int{}
			for _, v := range got {
				ids = append(ids, v.PID)
			}
			if want := append([]int{100}, tc.victims...); !slices.Equal(ids, want) || unclear != tc.unclear {
				t.Errorf("victims %v, unclear %v; want %v, %v", ids, unclear, want, tc.unclear)
			}
		})
	}
}

// What would spare the command does not, where its caller did not keep to the rules.
func TestClassifyTheCommand(t *testing.T) {
	first := stat{Process: Process{1, 1}, state: 'S', threads: 5} // in no session
	command := stat{Process: Process{100, 50}, state: 'S', parent: 1, session: 100, threads: 1}
	child := stat{Process: Process{101, 51}, state: 'S', parent: 100, session: 101, threads: 1}
	inSession := func(id int, s stat) stat {
		s.session = id
		return s
	}
	for _, tc := range []struct {
		name string
		list []stat
	}{
		{"it is among the others", []stat{first, command, child}},
		{"it shares the session of process 1", []stat{inSession(1, first), inSession(1, command), child}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, unclear := classify(tc.list, command.Process, []Process{command.Process})
			if want := []Process{command.Process, child.Process}; !slices.Equal(got, want) || unclear {
				t.Errorf("victims %v, unclear %v; want %v", got, unclear, want)
			}
		})
	}
}

func TestProcessesThatEndDuringAScanAreLeftOut(t *testing.T) {
	list, err := openProc()
	if err != nil {
		t.Fatal(err)
	}
	defer list.close()
	list.names = []string{"4194305", "self", "1"} // the first is above every id
	if err := list.add(); err != nil || len(list.list) != 1 || list.list[0].PID != 1 {
		t.Errorf("%v, %v", list.list, err)
	}
}

func TestParseStat(t *testing.T) {
	const rest = " S 7 8 9 34816 1030 4194560 1 2 3 4 5 6 7 8 20 0 3 0 5555 6 7 18446744073709551615"
	for _, tc := range []struct {
		name, line string
		want       stat
		bad        bool
	}{
		{"a line", "42 (bash)" + rest + "\n", stat{Process{42, 5555}, 'S', 7, 9, 3}, false},
		{"a name with brackets and spaces", "42 (a) Z 1 (b)" + rest, stat{Process{42, 5555}, 'S', 7, 9, 3}, false},
		{"a name with a line break", "42 (a\n))" + rest, stat{Process{42, 5555}, 'S', 7, 9, 3}, false},
		{"nothing", "", stat{}, true},
		{"no name", "42 bash" + rest, stat{}, true},
		{"too few fields", "42 (bash) S 7 8 9", stat{}, true},
		{"a name for a number", "42 (bash) S x" + rest, stat{}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseStat([]byte(tc.line))
			if got != tc.want || (err != nil) != tc.bad {
				t.Errorf("%+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}
