package mine

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/lib/bounded"
)

// lockFiles say what installs the dependencies of a module of JavaScript.
var lockFiles = []string{"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "pnpm-workspace.yaml"}

// packageJSON is the part of a package.json that says how tests run.
type packageJSON struct {
	Scripts         map[string]string `json:"scripts"`
	Dependencies    map[string]string `json:"dependencies"`
	DevDependencies map[string]string `json:"devDependencies"`
	Workspaces      any               `json:"workspaces"`
}

// needs reports whether a package has a dependency.
func (p packageJSON) needs(name string) bool {
	_, dev := p.DevDependencies[name]
	_, runtime := p.Dependencies[name]
	return dev || runtime
}

// tools are the programs that run tests of JavaScript, by whether a task can have them.
var tools = map[string]bool{
	"vitest": true, "jest": true, "mocha": true, "tap": true, "tape": true, "uvu": true,
	"ava": false, "jasmine": false, "karma": false, "lab": false, "qunit": false, "bun": false, "deno": false,
	"react-scripts": false, "vue-cli-service": false, "ng": false, "cypress": false, "playwright": false, "wtr": false, "web-test-runner": false,
}

// programs are the tools whose test files are programs: Node's test runner takes each for one test,
// which fails if the program does.
var programs = []string{"tap", "tape", "uvu"}

// toolOptions are the options of a tool in a script that tests depend on; the value says whether a
// word follows. Sources: the command-line pages of jest, vitest, mocha and Node.
var toolOptions = map[string]map[string]bool{
	"jest":   {"--config": true, "-c": true, "--env": true, "--preset": true, "--rootDir": true},
	"vitest": {"--config": true, "-c": true, "--environment": true, "--globals": false, "--root": true, "-r": true, "--project": true, "--pool": true, "--dom": false},
	"mocha": {
		"--require": true, "-r": true, "--import": true, "--loader": true, "--experimental-loader": true, "--ui": true, "-u": true, "--config": true, "--exit": false,
		"--timeout": true, "-t": true, "--extension": true, "--file": true, "--node-option": true, "-n": true,
	},
	"tape": {"--require": true, "-r": true},
	"uvu":  {"--require": true, "-r": true},
	"node": {"--import": true, "--require": true, "-r": true, "--loader": true, "--experimental-loader": true, "--conditions": true, "-C": true},
}

var (
	plainWord   = regexp.MustCompile(`^[A-Za-z0-9@_./:,=+-]+$`)
	assignment  = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*=[A-Za-z0-9@_./:,=+-]*$`)
	nodeFlag    = regexp.MustCompile(`^--(experimental|no-experimental)-[a-z-]+$`)
	commandEnds = regexp.MustCompile(`&&|\|\||;|\|`)
)

// planNode runs tests with the tool that the scripts and dependencies of package.json name; without
// one, with Node's own.
func planNode(m module, tests []string) plan {
	var p, top packageJSON
	if text := m.text("package.json"); text != "" && bounded.Unmarshal([]byte(text), &p) != nil {
		return plan{lacks: "package.json cannot be read"}
	}
	at := m
	if m.dir != "." {
		if root := m.in("."); bounded.Unmarshal([]byte(root.text("package.json")), &top) == nil && (top.Workspaces != nil || root.has("pnpm-workspace.yaml")) {
			at = root // its lock file is that of all workspaces
		}
	}
	tool, command := p.tool()
	if tool == "" {
		tool = cmp.Or(p.dependency(), top.dependency())
		command = []string{tool}
	}
	if slices.Contains(programs, tool) {
		command = command[slices.Index(command, tool)+1:]
		tool = "node"
	}
	out := plan{image: "node:22", at: at.dir, prepare: install(at), targets: tests}
	switch {
	case tool == "" || tool == "node":
		tool = "node"
		if command = slices.DeleteFunc(command, func(word string) bool { return word == "" || word == "node" }); len(command) == 0 && m.language == "typescript" {
			command = types(p, top)
		}
	case !tools[tool]:
		return plan{lacks: tool}
	}
	out.command = append([]string{tool}, command...)
	return out
}

// install returns the commands that install the dependencies of a module.
func install(m module) []string {
	switch {
	case m.has("pnpm-lock.yaml"):
		return []string{"corepack enable && pnpm install --frozen-lockfile"}
	case m.has("yarn.lock"):
		return []string{"corepack enable && yarn install"}
	case m.hasOne("package-lock.json", "npm-shrinkwrap.json"):
		return []string{"npm ci"}
	case strings.Contains(m.text("package.json"), `ependencies"`):
		return []string{"npm install"}
	}
	return nil
}

// types returns the options with which Node's test runner reads TypeScript. Node 22 needs none for
// types that it can strip.
func types(packages ...packageJSON) []string {
	for _, p := range packages {
		switch {
		case p.needs("tsx"):
			return []string{"--import", "tsx"}
		case p.needs("ts-node"):
			return []string{"--loader", "ts-node/esm"}
		}
	}
	return nil
}

// dependency returns the tool that is a dependency of a package; "" if none is.
func (p packageJSON) dependency() string {
	for _, name := range []string{"vitest", "jest", "mocha", "ava", "jasmine", "tap", "tape", "uvu", "react-scripts", "karma"} {
		if p.needs(name) {
			return name
		}
	}
	return ""
}

// tool returns the tool that the script test runs, and its command with the options that tests
// depend on: variables, the tool, options. It returns "" if the script runs none that is known.
func (p packageJSON) tool() (name string, command []string) {
	for _, script := range []string{"test", "test:unit", "unit", "test:node"} {
		for _, words := range p.commands(script, 3) {
			if name, command = toolOf(words); name != "" {
				return name, command
			}
		}
	}
	return "", nil
}

// commands returns the commands of a script, each as its words. A command that runs another script
// stands for the commands of that one, depth deep.
func (p packageJSON) commands(script string, depth int) [][]string {
	text := p.Scripts[script]
	if depth == 0 || len(text) > 10_000 {
		return nil
	}
	var out [][]string
	for _, command := range commandEnds.Split(text, -1) {
		words := strings.Fields(strings.NewReplacer(`"`, " ", `'`, " ", "NODE_OPTIONS=", " ").Replace(command))
		other := ""
		if len(words) > 1 && slices.Contains([]string{"npm", "yarn", "pnpm", "run-s"}, words[0]) {
			for _, word := range words[1:] {
				if word != "run" && word != "run-script" && !strings.HasPrefix(word, "-") {
					other = word
					break
				}
			}
		}
		if _, known := p.Scripts[other]; known && other != script {
			out = append(out, p.commands(other, depth-1)...)
		} else {
			out = append(out, words)
		}
	}
	return out
}

// toolOf returns the tool that a command runs; "" if it runs none that is known.
func toolOf(words []string) (name string, command []string) {
	at := slices.IndexFunc(words, func(word string) bool {
		_, known := tools[toolName(word)]
		return known
	})
	isNode := slices.Contains(words, "--test")
	if at < 0 && !isNode {
		return "", nil
	}
	if at < 0 {
		name = "node"
		if slices.Contains(words, "tsx") && !slices.Contains(words, "--import") {
			command = []string{"--import", "tsx"}
		}
		return name, append(command, options(name, words)...)
	}
	name = toolName(words[at])
	var flags []string
	for _, word := range words[:at] {
		switch {
		case assignment.MatchString(word):
			command = append(command, word)
		case nodeFlag.MatchString(word):
			flags = append(flags, word)
		}
	}
	if len(flags) > 0 {
		command = append(command, "NODE_OPTIONS="+strings.Join(flags, " "))
	}
	return name, append(append(command, name), options(name, words[at+1:])...)
}

// toolName returns the name of the tool that a word of a command names, such as
// ./node_modules/.bin/_mocha.
func toolName(word string) string {
	base := strings.TrimPrefix(path.Base(word), "_")
	return strings.TrimSuffix(strings.TrimSuffix(base, ".js"), ".mjs")
}

// options returns those options of a tool that tests depend on.
func options(tool string, words []string) (out []string) {
	for i := 0; i < len(words); i++ {
		option, value, joined := strings.Cut(words[i], "=")
		follows, wanted := toolOptions[tool][option]
		switch {
		case tool == "node" && nodeFlag.MatchString(words[i]), wanted && joined && plainWord.MatchString(value), wanted && !follows && !joined:
			out = append(out, words[i])
		case wanted && follows && !joined && i+1 < len(words) && plainWord.MatchString(words[i+1]):
			out = append(out, option, words[i+1])
			i++
		}
	}
	return out
}
