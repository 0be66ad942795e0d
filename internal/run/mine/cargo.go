package mine

import (
	"path"
	"regexp"
	"strings"
)

// crateName matches the names of tests that cargo takes after --test.
var crateName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// planCargo runs integration tests by their names, and the unit tests of a file below src with the
// library. Source: The Cargo Book, Cargo Targets.
func planCargo(m module, tests []string) plan {
	unit := "--lib"
	if !m.has("src/lib.rs") {
		unit = "--bins"
	}
	var targets []string
	for _, test := range tests {
		parts := strings.Split(test, "/")
		switch {
		case parts[0] == "src":
			targets = append(targets, unit)
		case parts[0] == "tests" && len(parts) > 1:
			name := strings.TrimSuffix(parts[1], path.Ext(parts[1]))
			if crateName.MatchString(name) && name != "common" {
				targets = append(targets, "--test "+name)
			}
		}
	}
	switch {
	case !m.has("Cargo.toml"):
		return plan{lacks: "rust: no Cargo.toml"}
	case len(targets) == 0:
		return plan{lacks: "rust: data of tests"}
	}
	return plan{image: "rust:1", prepare: []string{"cargo fetch", "cargo test --no-run > /dev/null 2>&1 || true # fills the cache of builds"}, targets: unique(targets)}
}
