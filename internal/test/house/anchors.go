package main

import "fmt"

// anchors are the figures of other programs, counted by this command: containerd at 301026e58,
// restic at a80be1478 and k6 at 87883075c, all of August 2026.
var anchors = []column{
	anchor("containerd", "147815", "82584", "183", "24 %", "20", "166", "", "748", "199", "230", "", "1", "2", "0", "0", "0", "0", "0"),
	anchor("restic", "50894", "37631", "422", "39 %", "25", "57", "", "222", "109", "52", "", "4", "0", "0", "0", "0", "0", "0"),
	anchor("k6", "101989", "99263", "281", "53 %", "18", "132", "", "785", "128", "140", "", "3", "1", "0", "1", "0", "1", "0"),
}

// anchor makes a column of values in the order of names.
func anchor(name string, values ...string) column {
	if len(values) != len(names) {
		panic(fmt.Sprintf("%s has %d figures instead of %d", name, len(values), len(names)))
	}
	c := column{name, map[string]string{}}
	for i, v := range values {
		c.values[names[i]] = v
	}
	return c
}
