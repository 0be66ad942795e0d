package mine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded returns what a runner wrote: testdata/results has the results of jest 29.7, vitest 3.2,
// mocha 11.7 and surefire 3.2.5 for the tests of a calculator, without the change and with it.
func recorded(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/results", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// replay is a program in place of a runner of JavaScript: it writes the recorded results.
const replay = `#!/bin/bash
set -e
for word; do
  case $word in
  --outputFile=* | output=*) out=${word#*=} ;;
  esac
done
grep -q 'a + b' calc.js && of=with || of=without
sed "s#@DIR@#$PWD#" "results/%s.$of.json" > "$out"
echo "ok 1 - made up"
exit 1
`

// The results of jest, vitest and mocha name the tests; names that pass and fail, or have line
// breaks, do not count.
func TestTasksTellTheChangeWithToolsOfJavaScript(t *testing.T) {
	needs(t, "node")
	for _, tool := range []string{"jest", "vitest", "mocha"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			tells(
				t, []string{
					"package.json", fmt.Sprintf(`{"scripts": {"test": "%s"}, "devDependencies": {"%[1]s": "1"}}`, tool), "calc.js", "exports.add = a => a\n",
					"node_modules/.bin/" + tool, fmt.Sprintf(replay, tool),
					"results/" + tool + ".with.json", recorded(t, tool+".with.json"), "results/" + tool + ".without.json", recorded(t, tool+".without.json"),
				},
				[]string{"calc.js", "exports.add = (a, b) => a + b\n", "test/calc.test.js", "// recorded\n"},
				"test/calc.test.js: calc adds nothing", "test/calc.test.js: calc adds\ntest/calc.test.js: calc adds nothing",
			)
		})
	}
}

// surefire's JUnit XML names the tests; what a test prints does not count, nor do other classes.
func TestTasksTellTheChangeWithMaven(t *testing.T) {
	const mvn = `#!/bin/bash
set -e
case "$*" in *-Dtest=CalcTest*) ;; *) exit 1 ;; esac
mkdir -p core/target/surefire-reports
grep -q 'a + b' core/src/main/java/calc/Calc.java && of=with || of=without
cp "results/$of.xml" core/target/surefire-reports/TEST-calc.CalcTest.xml
echo '<testsuite><testcase name="other" classname="calc.OtherTest"/></testsuite>' > core/target/surefire-reports/TEST-calc.OtherTest.xml
`
	const code = "package calc; class Calc { static int add(int a, int b) { return %s; } }\n"
	always := "calc.CalcTest each(String)[1]\ncalc.CalcTest each(String)[2]\ncalc.CalcTest$Inner nested"
	tells(
		t, []string{
			"pom.xml", "<project/>", "core/pom.xml", "<project/>", "core/src/main/java/calc/Calc.java", fmt.Sprintf(code, "a"), "bin/mvn", mvn,
			"results/with.xml", recorded(t, "surefire.with.xml"), "results/without.xml", recorded(t, "surefire.without.xml"),
		},
		[]string{"core/src/main/java/calc/Calc.java", fmt.Sprintf(code, "a + b"), "core/src/test/java/calc/CalcTest.java", "// recorded\n"},
		always, "calc.CalcTest adds\n"+always,
	)
}

// cargo lists the names of tests; lines that a test prints do not count.
func TestTasksTellTheChangeWithCargo(t *testing.T) {
	needs(t, "cargo")
	const code = "pub fn add(a: i32, b: i32) -> i32 { a %s b }\n"
	tells(
		t, []string{"Cargo.toml", "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "src/lib.rs", fmt.Sprintf(code, "-"), "tests/common/mod.rs", ""},
		[]string{
			"src/lib.rs", fmt.Sprintf(code, "+"), "tests/common/mod.rs", "// helper\n",
			"tests/it.rs", `use std::io::Write;
#[test] fn adds() { std::io::stdout().write_all(b"test made_up ... ok\n").unwrap(); assert_eq!(3, calc::add(1, 2)); }
#[test] fn adds_nothing() { println!("test also_made_up ... ok"); assert_eq!(1, calc::add(1, 0)); }
#[test] fn fails() { std::io::stdout().write_all(b"test fails ... ok\n").unwrap(); assert_eq!(4, calc::add(1, 2)); }
#[test] #[ignore] fn never() {}
#[test] #[should_panic] fn panics() { panic!("x") }
`,
		},
		"it adds_nothing\nit panics", "it adds\nit adds_nothing\nit panics",
	)
}

// make test names tests in JUnit XML, or in lines of TAP, automake or ctest.
func TestTasksTellTheChangeWithMake(t *testing.T) {
	needs(t, "make")
	for name, tc := range map[string]struct{ prints, writes, without, with string }{
		"TAP":      {"ok 1 - zero\\n%sok 2 - one\\nok 3 - never # SKIP\\n", "", "zero", "one\nzero"},
		"automake": {"PASS: zero\\nSKIP: x\\n%sPASS: one\\n", "", "zero", "one\nzero"},
		"ctest":    {"1/2 Test #1: zero ....   Passed    0.00 sec\\n%s2/2 Test #2: one .....   Passed    0.00 sec\\n", "", "zero", "one\nzero"},
		"JUnit": {
			"ok\\n", `<?xml version="1.0"?><testsuites><!-- <testcase name="comment"/> --><testsuite><testcase classname="c" name="a &lt;b&gt;"/>` +
				`<testcase name='one > two' classname="c"><system-out><![CDATA[<testcase name="made up"/>]]></system-out>%s</testcase><testcase name="x"><skipped/></testcase></testsuite></testsuites>`,
			"c a <b>", "c a <b>\nc one > two",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			makefile := "lib test: all\n\t@printf '" + strings.Replace(tc.prints, "%s", "'; grep -q right calc.c || printf 'not ok 2 - one\\nFAIL: one\\n2/2 Test  #2: one .....***Failed    0.00 sec\\n'; printf '", 1) + "'\n"
			if tc.writes != "" {
				makefile += "\t@grep -q right calc.c && cp right.xml out.xml || cp wrong.xml out.xml\n"
			}
			tells(
				t, []string{
					"Makefile", makefile + "all:\n", "calc.c", "wrong\n", "old.xml", `<testsuite><testcase name="old"/></testsuite>`,
					"right.xml", strings.Replace(tc.writes, "%s", "", 1), "wrong.xml", strings.Replace(tc.writes, "%s", "<failure message='x'/>", 1),
				},
				[]string{"calc.c", "right\n", "calc_test.c", "// 1\n"},
				tc.without, tc.with,
			)
		})
	}
}
