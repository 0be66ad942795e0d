package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// packages returns those of this repository.
func packages() (map[string]*listed, error) {
	tree, err := here()
	if err != nil {
		return nil, err
	}
	return tree.packages, nil
}

func chosen(t *testing.T, set string) []string {
	t.Helper()
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	names, err := choose(all, set)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestSourceAgreesWithTheSets searches the text of all tests, which the rule does not use, for
// signs that they depend on the machine.
func TestSourceAgreesWithTheSets(t *testing.T) {
	const top = "../../.."
	for _, sign := range []struct {
		set, text string
	}{
		{"user", "testenv.Need" + "Docker("},
		{"user", "testenv.Need" + "Root("},
		{"user", "testenv." + "Lacks("},
		{"user", "os.Get" + "euid()"},
		{"user", "os.Get" + "uid()"},
		{"docker", "docker." + "New("},
		{"ids", "sandbox." + "New("},
		{"ids", "sandbox." + "Init()"},
	} {
		names, found := chosen(t, sign.set), 0
		err := filepath.WalkDir(top, func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(file, "_test.go") {
				return err
			}
			text, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(text), sign.text) {
				return err
			}
			found++
			dir, err := filepath.Rel(top, filepath.Dir(file))
			if name := "./" + filepath.ToSlash(dir); !slices.Contains(names, name) {
				t.Errorf("%s contains %q, but %s is not in the set %q", file, sign.text, name, sign.set)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if found == 0 {
			t.Errorf("no test contains %q: this test looks for the wrong text", sign.text)
		}
	}
}

// TestLongTestsAreFound searches the text of all tests for calls, without parsing.
func TestLongTestsAreFound(t *testing.T) {
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	lines, err := long(all)
	if err != nil {
		t.Fatal(err)
	}
	found := strings.Join(lines, "\n")
	const top = "../../.."
	err = filepath.WalkDir(top, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), "testenv.Lo"+"ng(t, \"") {
			return err
		}
		dir, err := filepath.Rel(top, filepath.Dir(file))
		if !strings.Contains(found, "./"+filepath.ToSlash(dir)+" ^(Test") {
			t.Errorf("%s has a test that takes long, but its package is not among\n%s", file, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLongTestsAreNamed(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"a test", "func TestA(t *testing.T) { testenv.Long(t, \"x\") }\nfunc TestB(t *testing.T) {}", "[TestA]"},
		{"a test in a test", "func TestA(t *testing.T) { t.Run(\"b\", func(t *testing.T) { testenv.Long(t, \"x\") }) }", "[TestA]"},
		{"a shorter test", "func TestA(t *testing.T) { f(testenv.LongRun()) }", "[TestA]"},
		{"no test", "func testA(t *testing.T) { testenv.Other() }", "[]"},
		{"a helper", "func helper(t *testing.T) { testenv.Long(t, \"x\") }", "an error"},
		{"a variable", "var isLong = testenv.LongRun()", "an error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a_test.go")
			if err := os.WriteFile(file, []byte("package p\n"+tc.text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			names, err := longTests(file)
			got := fmt.Sprint(names)
			if err != nil {
				got = "an error"
			}
			if got != tc.want {
				t.Errorf("got %s (%v), want %s", got, err, tc.want)
			}
		})
	}
}

func TestSetsHoldEachOther(t *testing.T) {
	user := chosen(t, "user")
	for _, set := range []string{"docker", "ids"} {
		for _, name := range chosen(t, set) {
			if !slices.Contains(user, name) {
				t.Errorf("%s is in the set %s, but not in the set user", name, set)
			}
		}
	}
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	if name := "./internal/lib/quantity"; slices.Contains(user, name) || all[path.Join(module, "internal/lib/quantity.test")] == nil {
		t.Errorf("%s computes, and has tests, but it is in the set user: everything is", name)
	}
}

func TestRule(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"asks.go":       "package p\nimport \"os\"\nvar u = os.Getgroups\n",
		"mentions.go":   "package p\n// os.Getgroups\nvar u = \"os.Getgroups\"\n",
		"asks_test.go":  "package p\nimport \"os/user\"\nvar f = user.Current\n",
		"plain_test.go": "package p\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name string
		pkg  listed
		deps []string
		want tested
	}{
		{"nothing of it", listed{GoFiles: []string{"mentions.go"}, TestGoFiles: []string{"plain_test.go"}}, nil, tested{}},
		{"the package asks", listed{GoFiles: []string{"asks.go"}}, nil, tested{asks: true}},
		{"its test asks", listed{TestGoFiles: []string{"asks_test.go"}}, nil, tested{asks: true}},
		{"its outer test asks", listed{XTestGoFiles: []string{"asks_test.go"}}, nil, tested{asks: true}},
		{"what it is built from asks", listed{}, []string{"fmt", "m/asks"}, tested{asks: true}},
		{"what it is built from asks, built for the test", listed{}, []string{"m/asks [p.test]"}, tested{asks: true}},
		{"it is built from docker", listed{}, []string{docker}, tested{docker: true}},
		{"its test imports the sandbox", listed{TestImports: []string{sandbox}}, nil, tested{ids: true}},
		{"its outer test imports a part of the sandbox", listed{XTestImports: []string{sandbox + "/internal/oci"}}, nil, tested{ids: true}},
		{"its test is built from the sandbox, but does not import it", listed{}, []string{sandbox}, tested{}},
		{"it is a part of the sandbox", listed{ImportPath: sandbox + "/internal/oci"}, nil, tested{ids: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := tc.pkg
			p.Dir = dir
			if p.ImportPath == "" {
				p.ImportPath = "m/p"
			}
			all, err := judge(map[string]*listed{
				p.ImportPath:           &p,
				p.ImportPath + ".test": {ImportPath: p.ImportPath + ".test", Deps: tc.deps},
				"m/asks":               {ImportPath: "m/asks", Dir: dir, GoFiles: []string{"asks.go"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := all[p.ImportPath]; got != tc.want || len(all) != 1 {
				t.Errorf("got %+v of %d, want %+v", got, len(all), tc.want)
			}
		})
	}
	if _, err := choose(nil, "other"); err == nil {
		t.Error("an unknown set is no error")
	}
	if _, err := choose(nil, "user"); err == nil {
		t.Error("an empty set is no error")
	}
}
