package mine

import (
	"strings"
	"testing"
)

// The scripts of package.json decide which tool runs and with what options, then its dependencies.
func TestPlanNode(t *testing.T) {
	for _, tc := range []struct{ language, text, want string }{
		{"javascript", ``, "node"},
		{"javascript", `{"name": "x"}`, "node"},
		{"javascript", `{"scripts": {"test": "jest"}}`, "jest jest"},
		{"typescript", `{"scripts": {"test": "jest --config jest.unit.js --coverage --maxWorkers=2"}}`, "jest jest --config jest.unit.js"},
		{"javascript", `{"scripts": {"test": "NODE_OPTIONS=--experimental-vm-modules TZ=UTC npx jest"}}`, "jest TZ=UTC NODE_OPTIONS=--experimental-vm-modules jest"},
		{"javascript", `{"scripts": {"test": "cross-env NODE_OPTIONS='--experimental-vm-modules' jest"}}`, "jest NODE_OPTIONS=--experimental-vm-modules jest"},
		{"javascript", `{"scripts": {"test": "node --experimental-vm-modules node_modules/jest/bin/jest.js"}}`, "jest NODE_OPTIONS=--experimental-vm-modules jest"},
		{"javascript", `{"scripts": {"test": "npm run lint && npm run test:unit", "lint": "eslint .", "test:unit": "c8 vitest run --globals"}}`, "vitest vitest --globals"},
		{"javascript", `{"scripts": {"test": "npm test"}}`, "node"},
		{"javascript", `{"scripts": {"test": "yarn a", "a": "yarn b", "b": "yarn a"}}`, "node"},
		{"typescript", `{"scripts": {"test": "nyc ./node_modules/.bin/_mocha -r ts-node/register --import=tsx --exit 'test/**/*.ts' --reporter dot"}}`, "mocha mocha -r ts-node/register --import=tsx --exit"},
		{"javascript", `{"scripts": {"test": "mocha -r $(touch x)"}}`, "mocha mocha"},
		{"typescript", `{"scripts": {"test": "node --import tsx --test 'src/**/*.test.ts'"}}`, "node --import tsx"},
		{"typescript", `{"scripts": {"test": "tsx --test"}}`, "node --import tsx"},
		{"typescript", `{"devDependencies": {"tsx": "4"}}`, "node --import tsx"},
		{"typescript", `{"devDependencies": {"ts-node": "10"}}`, "node --loader ts-node/esm"},
		{"javascript", `{"devDependencies": {"vitest": "3"}, "scripts": {"build": "vite"}}`, "vitest vitest"},
		{"javascript", `{"dependencies": {"mocha": "1"}, "scripts": {"test": "make check"}}`, "mocha mocha"},
		{"javascript", `{"devDependencies": {"jest": "1"}, "scripts": {"test": "ava"}}`, "lacks ava"},
		{"javascript", `{"scripts": {"test": "tap test/*.js"}}`, "node"},
		{"javascript", `{"scripts": {"test": "TZ=UTC nyc tape -r dotenv/config 'test/**/*.js'"}}`, "node -r dotenv/config"},
		{"typescript", `{"devDependencies": {"tape": "5", "tsx": "4"}}`, "node --import tsx"},
		{"javascript", `{"scripts": {"test": "react-scripts test"}}`, "lacks react-scripts"},
		{"javascript", `{"scripts": {"test": 1}}`, "lacks package.json cannot be read"},
		{"javascript", `[`, "lacks package.json cannot be read"},
		{"javascript", `{"scripts": {"test": "` + strings.Repeat("jest && ", 10_000) + `"}}`, "node"},
	} {
		m := module{".", map[string]string{}, tc.language}
		if tc.text != "" {
			m.manifests["package.json"] = tc.text
		}
		p := planNode(m, []string{"a.test.js"})
		got := strings.Join(p.command, " ")
		if p.lacks != "" {
			got = "lacks " + p.lacks
		}
		if got != tc.want {
			t.Errorf("%.200s: %q, want %q", tc.text, got, tc.want)
		}
	}
}

// The proposed Dockerfile follows from the files of a module.
func TestProposedDockerfiles(t *testing.T) {
	for _, tc := range []struct {
		test  string
		files map[string]string
		want  string // lines after COPY, joined
	}{
		{"a.test.js", map[string]string{"package.json": `{"devDependencies": {"jest": "1"}}`}, "node:22|/app|RUN npm install"},
		{"a.test.js", map[string]string{"package.json": `{"scripts": {"test": "jest"}}`, "package-lock.json": ""}, "node:22|/app|RUN npm ci"},
		{"a.test.js", map[string]string{"package.json": "{}", "pnpm-lock.yaml": ""}, "node:22|/app|RUN corepack enable && pnpm install --frozen-lockfile"},
		{"a.test.js", map[string]string{"package.json": "{}", "yarn.lock": ""}, "node:22|/app|RUN corepack enable && yarn install"},
		{"p/a/x.test.ts", map[string]string{"package.json": `{"workspaces": ["p/*"], "devDependencies": {"vitest": "1"}}`, "package-lock.json": "", "p/a/package.json": "{}"}, "node:22|/app|RUN npm ci"},
		{"p/a/x.test.js", map[string]string{"p/a/package.json": `{"dependencies": {"x": "1"}}`}, "node:22|/app/p/a|RUN npm install|/app"},
		{"tests/x.rs", map[string]string{"Cargo.toml": ""}, "rust:1|/app|RUN cargo fetch|RUN cargo test --no-run > /dev/null 2>&1 || true # fills the cache of builds"},
		{"a/src/test/java/x/XTest.java", map[string]string{"pom.xml": "<java.version>11</java.version>", "a/pom.xml": ""}, "maven:3-eclipse-temurin-11|/app|RUN mvn -B -q test > /dev/null 2>&1 || true # fetches all that the tests need"},
		{"src/test/java/x/XTest.java", map[string]string{"pom.xml": "<maven.compiler.source>1.8</maven.compiler.source>"}, "maven:3-eclipse-temurin-8|/app|RUN mvn -B -q test > /dev/null 2>&1 || true # fetches all that the tests need"},
		{"src/test/java/x/XTest.java", map[string]string{"pom.xml": "<release>19</release>"}, "maven:3-eclipse-temurin-21|/app|RUN mvn -B -q test > /dev/null 2>&1 || true # fetches all that the tests need"},
		{"src/test/java/x/XTest.java", map[string]string{"build.gradle": ""}, "java: no pom.xml"},
		{"src/test/java/x/XTest.java", map[string]string{"Makefile": "test:\n"}, "maven:3-eclipse-temurin-21|/app"},
		{"x_test.c", map[string]string{"Makefile": "all check test : lib\n"}, "gcc:14|/app"},
		{"x_test.c", map[string]string{"Makefile": "test := x\ntests:\n# test:\n.PHONY: test\n"}, "c: Makefile has no target test"},
		{"x_test.rb", nil, "ruby"},
		{"tests/common/mod.rs", map[string]string{"Cargo.toml": ""}, "rust: data of tests"},
	} {
		language := languageOf(tc.test)
		c := Candidate{Reason: Promising, tests: []string{tc.test}, language: language, runner: runnerOf(language)}
		c.byModule(module{".", tc.files, language})
		var lines []string
		for line := range strings.Lines(c.Dockerfile("")) {
			for _, mark := range []string{"FROM ", "WORKDIR ", "RUN "} {
				if text, found := strings.CutPrefix(strings.TrimSpace(line), mark); found {
					lines = append(lines, strings.TrimPrefix(mark, "FROM ")+text)
				}
			}
		}
		got := strings.ReplaceAll(strings.Join(lines, "|"), "WORKDIR ", "")
		if c.Reason != Promising {
			got = c.Detail
		}
		if got != tc.want {
			t.Errorf("%s in %v: %q, want %q", tc.test, tc.files, got, tc.want)
		}
	}
}
