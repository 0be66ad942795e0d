package prove_test

import (
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/prove"
)

func TestGoodTaskHasNoFindings(t *testing.T) {
	if found := prove.Lint(load(t, nil)); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// random is long enough for any token, and is not a real one.
const random = "q7Zt3RkW9vYb2LxN8mHc4JsP6dGf1TaVe5UoKi0QzXwMnBrCyDhElFgOjIuSpAq7Zt3RkW9vYb2LxN8mHc4JsP6dGf1TaVe5UoKi0QzXw"

// summed returns a token whose checksum is right.
func summed(prefix string) string {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	token, sum := prefix+random[:30], crc32.ChecksumIEEE([]byte(random[:30]))
	var digits string
	for range 6 {
		digits, sum = string(alphabet[sum%62])+digits, sum/62
	}
	return token + digits
}

// twoSteps is the task.toml of a task with the steps one and two. What is added belongs to the
// second.
const twoSteps = "version = \"1.0\"\n[[steps]]\nname = \"one\"\n[[steps]]\nname = \"two\"\n"

// steps returns changes that make the good task one with two steps, with further changes.
func steps(changes map[string]string) map[string]string {
	out := map[string]string{"task.toml": twoSteps, "instruction.md": "", "tests/test.sh": "", "solution/solve.sh": ""}
	for _, step := range []string{"one", "two"} {
		for _, name := range []string{"instruction.md", "tests/test.sh", "solution/solve.sh"} {
			out["steps/"+step+"/"+name] = good[name]
		}
	}
	maps.Copy(out, changes)
	return out
}

// patch is a file of some length.
var patch = strings.Repeat("-a\n+b\n", 20)

// TestRules expects one finding of each rule at a place; "" is no finding of that rule. The values
// are assembled here, so that no scanner of this file takes them for real ones.
func TestRules(t *testing.T) {
	const dockerfile, toml, test, solve = "environment/Dockerfile", "task.toml", "tests/test.sh", "solution/solve.sh"
	file := func(name, text string) map[string]string { return map[string]string{name: text} }
	script := func(text string) map[string]string { return file(test, "#!/bin/bash\n"+text) }
	for _, c := range []struct {
		name, rule string
		files      map[string]string
		want       string // file:line; "" if there is none
	}{
		{"a base without a tag", "unpinned-image", file(dockerfile, "# x\nFROM debian\nWORKDIR /app\n"), dockerfile + ":2"},
		{"latest", "unpinned-image", file(dockerfile, "FROM registry.example:5000/a/b:latest\nWORKDIR /app\n"), dockerfile + ":1"},
		{"a port is no tag", "unpinned-image", file(dockerfile, "FROM registry.example:5000/a/b\nWORKDIR /app\n"), dockerfile + ":1"},
		{"a tag that moves, with a variant", "unpinned-image", file(dockerfile, "FROM node:lts-slim\nWORKDIR /app\n"), dockerfile + ":1"},
		{"an argument that comes to latest", "unpinned-image", file(dockerfile, "ARG V=latest\nFROM debian:${V}\nWORKDIR /app\n"), dockerfile + ":2"},
		{"an argument that comes to a version", "unpinned-image", file(dockerfile, "ARG V=12\nFROM debian:$V\nWORKDIR /app\n"), ""},
		{"an argument that is given", "unpinned-image", file(dockerfile, "ARG V\nFROM debian:$V\nWORKDIR /app\n"), ""},
		{"a digest", "unpinned-image", file(dockerfile, "FROM debian@sha256:"+strings.Repeat("a", 64)+"\nWORKDIR /app\n"), ""},
		{"scratch and stages are no images", "unpinned-image", file(dockerfile, "FROM debian:12 AS base\nWORKDIR /app\nFROM scratch\nCOPY --from=0 / /\nCOPY --from=BASE / /\nFROM base\n"), ""},
		{"files from an image", "unpinned-image", file(dockerfile, "FROM debian:12\nWORKDIR /app\nCOPY --from=example.org/tool /tool /tool\n"), dockerfile + ":3"},
		{"a date behind a word that moves", "unpinned-image", file(dockerfile, "FROM debian:sid-20260112-slim\nWORKDIR /app\n"), ""},
		{"a commit behind a word that moves", "unpinned-image", file(dockerfile, "FROM example.org/tool:main-4f0c8d1\nWORKDIR /app\n"), ""},
		{"a release's name behind a word that moves", "unpinned-image", file(dockerfile, "FROM node:lts-bookworm\nWORKDIR /app\n"), dockerfile + ":1"},
		{"latest in task.toml", "unpinned-image", file(toml, "version = \"1.0\"\n[environment]\ndocker_image = \"debian:latest\"\n"), toml + ":3"},
		{"a release in task.toml", "unpinned-image", file(toml, "version = \"1.0\"\n[environment]\ndocker_image = \"debian:bookworm\"\n"), ""},

		{"no WORKDIR", "workdir", file(dockerfile, "FROM debian:12\nRUN true\n"), dockerfile + ":1"},
		{"no WORKDIR in the last stage", "workdir", file(dockerfile, "FROM debian:12\nWORKDIR /a\nFROM docker.io/library/alpine:3\n"), dockerfile + ":3"},
		{"a WORKDIR in the stage below", "workdir", file(dockerfile, "FROM debian:12 AS a\nWORKDIR /a\nFROM a\n"), ""},
		{"a directory in task.toml", "workdir", map[string]string{dockerfile: "FROM debian:12\n", toml: "version = \"1.0\"\n[environment]\nworkdir = \"/app\"\n"}, ""},
		{"an image that may have one", "workdir", file(dockerfile, "FROM example.org/base:1\n"), ""},
		{"an official image from a mirror", "workdir", file(dockerfile, "FROM public.ecr.aws/docker/library/python:3.13-slim\n"), dockerfile + ":1"},

		{"not a Dockerfile", "dockerfile", file(dockerfile, "FROM debian:12\nWORKDIR /app\nRUNS true\n"), dockerfile + ":3"},
		{"a heredoc", "dockerfile", file(dockerfile, "FROM debian:12\nWORKDIR /app\nRUN <<E\nRUNS true\nE\n"), ""},

		{"a path that begins above environment/", "copy-source", map[string]string{"environment/app/x": "x", dockerfile: "FROM debian:12\nWORKDIR /app\nCOPY environment/app .\n"}, dockerfile + ":3"},
		{"the tests, which are not in environment/", "copy-source", file(dockerfile, "FROM debian:12\nWORKDIR /app\nADD ./tests/ ../tests/test.sh /tests/\n"), dockerfile + ":3 " + dockerfile + ":3"},
		{"files that are there", "copy-source", map[string]string{
			"environment/app/x": "x", dockerfile: "FROM debian:12\nWORKDIR /app\nCOPY . app /app/x ./app/ /a/\nCOPY [\"app/x\", \"/b/\"]\n",
		}, ""},
		{"quoted paths", "copy-source", map[string]string{
			"environment/src/x": "x", "environment/a b": "x", dockerfile: "FROM debian:12\nWORKDIR /app\nCOPY \"src/\" \"/app/src\"\nADD 'src/x' /y\nCOPY [\"a b\", \"/z\"]\n",
		}, ""},
		{"quoted paths that are not there", "copy-source", file(dockerfile, "FROM debian:12\nWORKDIR /app\nCOPY \"src/\" /app/\nADD [\"no\", \"/n\"]\n"), dockerfile + ":3 " + dockerfile + ":4"},
		{"files that only the build knows", "copy-source", file(dockerfile, "ARG D=x\nFROM debian:12 AS a\nFROM debian:12\nARG D\nWORKDIR /app\nCOPY $D package*.json /a/\nCOPY --from=a /x /x\nADD https://example.org/x https://example.org/a.git git@example.org:a.git /a/\nCOPY <<E /b\nx\nE\n"), ""},
		{"a build that compose describes", "copy-source", map[string]string{"environment/docker-compose.yaml": "services: {}\n", dockerfile: "FROM debian:12\nWORKDIR /app\nCOPY environment/x /x\n"}, ""},
		{"a stage that is not needed", "copy-source", file(dockerfile, "FROM debian:12 AS a\nCOPY x /x\nFROM debian:12\nWORKDIR /app\n"), ""},
		{"an image that is ready", "copy-source", map[string]string{dockerfile: "FROM debian:12\nWORKDIR /app\nCOPY x /x\n", toml: "version = \"1.0\"\nenvironment.docker_image = \"debian:12\"\n"}, ""},

		{"pip in the test", "verifier-network", script("cd /app\npip install pytest==8.4.1\n"), test + ":3"},
		{"pip in a function, wrapped", "verifier-network", script("f() { timeout 60 python3 -m pip install -q pytest; }\nf\n"), test + ":2"},
		{"pip from files", "verifier-network", script("pip install --no-index /wheels/a.whl\npip install -e .\npip list\n"), ""},
		{"curl elsewhere", "verifier-network", script("curl -LsSf https://astral.sh/uv/install.sh | sh\n"), test + ":2"},
		{"curl to the task's own service", "verifier-network", script("curl -s http://localhost:8080/health\ncurl -s 'http://127.0.0.1/a'\ncurl http://[::1]/\ncurl \"$url\"\ncurl http://$host.example.org/\ncurl http://web/\n"), ""},
		{"uvx", "verifier-network", script("uvx -p 3.13 pytest /tests/test_outputs.py\n"), test + ":2"},
		{"uv with a package", "verifier-network", script("uv run --no-project --with pytest==8.4.1 pytest /tests/x.py\n"), test + ":2"},
		{"uv with what is there", "verifier-network", script("uv run --offline --with pytest pytest\nuv run pytest --with-x\nuv run x.py --with pytest\n"), ""},
		{"apt-get", "verifier-network", script("apt-get -y install curl\n"), test + ":2"},
		{"the tests' image", "copy-source", map[string]string{
			toml: "version = \"1.0\"\nverifier.environment_mode = \"separate\"\n", "tests/Dockerfile": "FROM debian:12\nCOPY test.sh grade.py tests/x /tests/\n",
		}, "tests/Dockerfile:2 tests/Dockerfile:2"},
		{"a Dockerfile among tests that have no image", "copy-source", file("tests/Dockerfile", "FROM debian:12\nCOPY grade.py /tests/\n"), ""},
		{"the base of the tests' image", "unpinned-image", map[string]string{
			toml: "version = \"1.0\"\nverifier.environment_mode = \"separate\"\n", "tests/Dockerfile": "FROM debian\nCOPY . /tests/\n",
		}, "tests/Dockerfile:1"},
		{"the tests' image has no agent", "workdir", map[string]string{
			toml: "version = \"1.0\"\nverifier.environment_mode = \"separate\"\n", "tests/Dockerfile": "FROM debian:12\nCOPY . /tests/\n",
		}, ""},
		{"what the image has", "verifier-network", map[string]string{
			dockerfile: "FROM debian:12\nWORKDIR /app\nRUN apt-get update && apt-get install -y curl git\nRUN python3 -m pip install 'pytest==8.4.1' requests[socks] && npm i -g @org/a@1.2\n",
			test:       "#!/bin/bash\napt-get install -yq git\nuv pip install pytest requests\npip3 install -q pytest==8.4.1\nnpm install -g @org/a\n",
		}, ""},
		{"another version than the image's", "verifier-network", map[string]string{
			dockerfile: "FROM debian:12\nWORKDIR /app\nRUN pip install pytest==8.0\n", test: "#!/bin/bash\npip install pytest\npip install pytest==8.4.1\n",
		}, test + ":3"},
		{"one package more than the image's", "verifier-network", map[string]string{
			dockerfile: "FROM debian:12\nWORKDIR /app\nRUN pip install pytest\n", test: "#!/bin/bash\npip install pytest numpy\n",
		}, test + ":2"},
		{"packages of a stage that the image does not use", "verifier-network", map[string]string{
			dockerfile: "FROM debian:12 AS a\nRUN pip install pytest\nFROM debian:12\nWORKDIR /app\n", test: "#!/bin/bash\npip install pytest\n",
		}, test + ":2"},
		{"an installation that may fail", "verifier-network", script("pip install pytest >/dev/null 2>&1 || true\n(apt-get install -y jq) || echo 'no jq'\nnpm i left-pad || :\n"), ""},
		{"tests that may fail, by a program that fetches itself", "verifier-network", script("uvx pytest /tests/x.py || true\n"), test + ":2"},
		{"an installation with another way", "verifier-network", script("pip install pytest || pip install --user pytest\n"), test + ":2"},
		{"npm", "verifier-network", file("tests/run.sh", "npm ci\n"), "tests/run.sh:1"},
		{"npm that runs what is there", "verifier-network", script("npm test\nnpm run build\nnpx jest\nnpm ci --offline\n"), ""},
		{"a clone of a directory", "verifier-network", script("git clone /app/repo x\ngit -C x pull\ngit fetch origin\n"), ""},
		{"a clone from elsewhere", "verifier-network", script("git clone https://example.org/a.git\n"), test + ":2"},
		{"the words in a text", "verifier-network", script("echo 'run pip install x' # pip install\ncat <<E\npip install y\nE\n"), ""},
		{"the solution may fetch", "verifier-network", file(solve, "#!/bin/bash\npip install x\n"), ""},
		{"a test that is no script of bash", "verifier-network", script("if ( ; fi\npip install x\n"), ""},

		{"set -e before the test", "reward-missing", script("set -euo pipefail\ncd /app\npytest /tests/x.py\necho 1 > /logs/verifier/reward.txt\n"), test + ":4"},
		{"set -e in a condition", "reward-missing", script("set -e\nif pytest /tests/x.py; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"), ""},
		{"set -e and a list", "reward-missing", script("set -e\npytest /tests/x.py && r=1 || r=0\necho $r > /logs/verifier/reward.txt\n"), ""},
		{"set -e that ends before", "reward-missing", script("set -e\ncd /app\nset +e\npytest /tests/x.py\necho $? > /logs/verifier/reward.txt\n"), ""},
		{"set -e with a trap", "reward-missing", script("set -e\ntrap 'echo 0 > /logs/verifier/reward.txt' EXIT\npytest\necho 1 > /logs/verifier/reward.txt\n"), ""},
		{"set -e and a reward in advance", "reward-missing", script("set -e\necho 0 > /logs/verifier/reward.txt\n[[ -e /app/x ]]\necho 1 > /logs/verifier/reward.txt\n"), ""},
		{"set -u", "reward-missing", script("set -u\npytest\necho $? > /logs/verifier/reward.txt\n"), ""},
		{"a program that writes the reward", "reward-missing", map[string]string{test: "#!/bin/bash\nset -e\npython3 /tests/grade.py\n", "tests/grade.py": "open('/logs/verifier/reward.txt')\n"}, ""},
		{"set -e behind the reward's name", "reward-missing", script("set -e\nR=/logs/verifier/reward.txt\nexport R\nmkdir -p \"$(dirname \"$R\")\"\nrm -f \"$R\"\npython3 <<E\ncheck()\nE\necho $? > $R\n"), test + ":7"},
		{"set -e behind a reward that ends the script", "reward-missing", script("set -e\nif [ ! -f /app/x ]; then\n  echo 0 > /logs/verifier/reward.txt\n  exit 0\nfi\npytest\necho 1 > /logs/verifier/reward.txt\n"), test + ":7"},
		{"set -e behind a function that writes a reward", "reward-missing", script("set -e\nfinish() { echo $1 > /logs/verifier/reward.txt; }\npytest\nfinish 1\n"), test + ":4"},
		{"set -e behind a call of such a function", "reward-missing", script("set -e\nfinish() { echo $1 > /logs/verifier/reward.txt; }\nfinish 0\npytest\nfinish 1\n"), ""},
		{"set -e behind a reward by its variable", "reward-missing", script("set -e\nout=/logs/verifier/reward.txt\nprintf '0' > \"$out\"\npytest\necho 1 > \"$out\"\n"), ""},
		{"set -e behind a reward in both branches", "reward-missing", script("set -e\nif cmp -s a b; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; exit 0; fi\npytest\n"), ""},
		{"set -e behind what a grader prints", "reward-missing", script("set -e\nreward=$(python3 /tests/grade.py)\npytest\necho $reward > /logs/verifier/reward.txt\n"), ""},
		{"set -e in a branch", "reward-missing", script("set -e\nif [ -f /tests/x.py ]; then\n  python3 /tests/x.py\n  code=$?\nelse\n  code=1\nfi\necho $code > /logs/verifier/reward.txt\n"), test + ":4"},
		{"set -e behind a reward in the same branch", "reward-missing", script("set -e\nif [ -f /app/x ]; then\n  echo 0 > /logs/verifier/reward.txt\n  pytest\nelse\n  set +e\n  pytest\nfi\n"), ""},
		{"a test that ends as pytest does", "reward-missing", script("uvx pytest /tests/test_outputs.py --ctrf /logs/verifier/ctrf.json\nexit $?\n"), test + ":0"},
		{"a plugin of the tests that writes the reward", "reward-missing", map[string]string{test: "#!/bin/bash\npytest /tests\n", "tests/conftest.py": "open('/logs/verifier/reward.txt', 'w')\n"}, ""},
		{"a program of the image that writes the reward", "reward-missing", map[string]string{test: "#!/bin/bash\n/app/grade\n", "environment/grade": "R = LOGS + '/REWARD.json'\n"}, ""},
		{"a ready-made image that may write the reward", "reward-missing", map[string]string{test: "#!/bin/bash\n/app/grade\n", toml: "version = \"1.0\"\nenvironment.docker_image = \"debian:12\"\n"}, ""},

		{"Windows line ends", "crlf", script("true\necho 1 > /logs/verifier/reward.txt\r\n"), test + ":3"},
		{"in a program of python's", "crlf", file("environment/run.py", "#!/usr/bin/python3\r\nprint()\r\n"), ""},
		{"in a test of python's that bash starts", "crlf", file("tests/check.py", "#!/usr/bin/env python3\r\nprint()\r\n"), ""},
		{"in a script of the image", "crlf", file("environment/run.sh", "echo a\r\n"), "environment/run.sh:1"},
		{"in a here-document", "crlf", script("cat > /app/x.csv <<E\na,b\r\n1,2\r\nE\necho 1 > /logs/verifier/reward.txt\n"), ""},
		{"in a here-document and its delimiters", "crlf", script("cat > /app/x.csv <<EOF\r\na,b\r\n1,2\r\nEOF\r\necho 1 > /logs/verifier/reward.txt\n"), ""},
		{"behind such a here-document", "crlf", script("cat > /app/x.csv <<EOF\r\na,b\r\nEOF\r\ntrue\r\n"), test + ":5"},
		{"in a file's name behind a delimiter", "crlf", script("cat <<EOF > /app/x\r\na\r\nEOF\n"), test + ":2"},
		{"in a text", "crlf", script("printf 'a\r\nb\r\n' > \"/app/x\r\n\"\necho 1 > /logs/verifier/reward.txt\n"), ""},
		{"in comments", "crlf", script("# a\r\ntrue # b\r\necho 1 > /logs/verifier/reward.txt\n"), ""},
		{"behind a here-document", "crlf", script("cat <<E\na\r\nE\ntrue\r\n"), test + ":5"},
		{"in words that end a block", "crlf", script("if true; then\r\n  true\r\nfi\r\n"), test + ":2"},
		{"in a script that nobody can read", "crlf", script("if ( ; fi\r\n"), test + ":2"},
		{"in data", "crlf", file("environment/data.csv", "a,b\r\n"), ""},

		{"a solution to be written", "stub", file(solve, "#!/bin/bash\necho \"solution/solve.sh is to be written\" >&2\nexit 1\n"), solve + ":2"},
		{"an instruction that is written", "stub", file("instruction.md", "Write here: /app/x.\n"), ""},
		{"a missing fi", "bash-syntax", script("echo 1 > /logs/verifier/reward.txt\nif true; then\n  true\n"), test + ":3"},
		{"a quote that does not end", "bash-syntax", file(solve, "#!/bin/bash\necho 'a\n"), solve + ":2"},
		{"a library of bash's", "bash-syntax", file("+tests/lib.sh", "#!/usr/bin/env bash\nf() {\n"), "tests/lib.sh:2"},
		{"a library of nobody knows which shell", "bash-syntax", file("+tests/lib.sh", "f() {\n"), ""},
		{"a script of another shell", "bash-syntax", file("+tests/run.sh", "#!/bin/zsh\nfor x (a b) { echo $x }\n"), ""},
		{"a script of the image, which may be the problem to solve", "bash-syntax", file("environment/run.sh", "#!/bin/bash\nif\n"), ""},
		{"what only bash has", "bash-syntax", script("declare -A a=([x]=1)\n[[ a =~ ^(a|b)+$ ]] && diff <(echo a) <(echo b) |& cat\nshopt -s extglob\necho !(a|b) ${a[@]@Q} $((1 << 2)) &>> /tmp/x\n" +
			"coproc { cat; }\nselect x in a; do break; done <<< 1\ncase a in a) ;;& b) ;& *) ;; esac\necho 1 > /logs/verifier/reward.txt\n"), ""},

		{"a test without #!", "shebang", file(test, "echo 1 > /logs/verifier/reward.txt\n"), test + ":1"},
		{"a mark before #!", "bom", file(solve, "\ufeff#!/bin/bash\ntrue\n"), solve + ":1"},
		{"a mark before #! is not reported twice", "shebang", file(solve, "\ufeff#!/bin/bash\ntrue\n"), ""},
		{"a mark before a command of a library", "bom", file("+tests/lib.sh", "\ufeffset -e\n"), "tests/lib.sh:1"},
		{"a mark in a test of python's that bash starts", "bom", file("tests/check.py", "\ufeffprint()\n"), ""},
		{"a mark in the middle", "bom", script("printf '\ufeff'\necho 1 > /logs/verifier/reward.txt\n"), ""},
		{"a library", "shebang", file("+tests/lib.sh", "f() { true; }\n"), ""},
		{"a program that python is given", "shebang", file("+environment/tool.py", "print()\n"), ""},

		{"the tests in the instruction", "instruction-leak", file("instruction.md", "Do it.\nThe tests are in /tests/test.sh.\n"), "instruction.md:2"},
		{"what the grader runs", "instruction-leak", file("instruction.md", "It is tested by /tests/test.sh.\n\nThe grader runs `bash /tests/test.sh`, which looks for the words.\n"), ""},
		{"tests to run, in a line that also tells of others", "instruction-leak", file("instruction.md", "Look into it.\n3. Run `bash /tests/test.sh -q` meanwhile. The full verifier has hidden cases.\n"), "instruction.md:2"},
		{"a sentence that forbids, behind others", "instruction-leak", file("instruction.md", "Run the program. Do not run /tests/test.sh. See the notes.\n"), ""},
		{"the solution in the instruction", "instruction-leak", file("instruction.md", "See `/solution/solve.sh`\n"), "instruction.md:1"},
		{"a script that the agent is to write", "instruction-leak", file("instruction.md", "Write your answer to /solution/solve.sh, or run solve.sh.\n"), ""},
		{"a file that no test has", "instruction-leak", file("instruction.md", "The data is in /tests/data.csv.\n"), ""},
		{"a line that forbids it", "instruction-leak", file("instruction.md", "You must not look at /tests/test.sh.\nDon't change /tests/test.sh\n"), ""},
		{"a directory that the image has", "instruction-leak", map[string]string{
			"instruction.md": "Run /tests/test.sh.\n", dockerfile: "FROM debian:12\nWORKDIR /app\nCOPY visible /tests\n",
		}, ""},
		{"a directory that the tests look into", "instruction-leak", map[string]string{
			"instruction.md": "The program is run as /solution/solve.sh.\n", "tests/check.py": "run('/solution/solve.sh')\n",
		}, ""},
		{"the project's own tests", "instruction-leak", file("instruction.md", "Run tests/ and /app/tests/test.sh, and look at /testsuite.\n"), ""},

		{"the solution that nothing copies", "solution-in-image", file("environment/x/answer", good[solve]), ""},
		{"the solution in the image", "solution-in-image", map[string]string{"environment/x/answer": good[solve], dockerfile: "FROM debian:12\nWORKDIR /app\nCOPY x ./\n"}, dockerfile + ":3"},
		{"the solution in all that is copied", "solution-in-image", map[string]string{"environment/x/answer": good[solve], dockerfile: "FROM debian:12 AS a\nCOPY . .\nFROM a\nWORKDIR /app\nRUN apt-get update && rm -rf /var/lib/apt/lists/*\n"}, dockerfile + ":2"},
		{"the solution in a stage that is left behind", "solution-in-image", map[string]string{"environment/answer": good[solve], dockerfile: "FROM debian:12 AS a\nCOPY . .\nFROM debian:12\nWORKDIR /app\nCOPY --from=a /x /x\n"}, ""},
		{"another script", "solution-in-image", map[string]string{"environment/x/answer": good[solve] + "true\n", dockerfile: "FROM debian:12\nWORKDIR /app\nCOPY x ./\n"}, ""},
		{"a patch that is applied and removed", "solution-in-image", map[string]string{
			"environment/bug.patch": patch, "solution/fix.patch": patch, dockerfile: "FROM debian:12\nWORKDIR /app\nCOPY bug.patch /tmp/bug.patch\nRUN patch -R -p1 < /tmp/bug.patch && rm /tmp/bug.patch\n",
		}, ""},
		{"a patch that is removed with all that is there", "solution-in-image", map[string]string{
			"environment/bug.patch": patch, "solution/fix.patch": patch, dockerfile: "FROM debian:12\nWORKDIR /app\nADD *.patch /tmp/\nRUN <<E\npatch -R -p1 < /tmp/bug.patch\nrm -rf /tmp/*\nE\n",
		}, ""},
		{"a patch that stays", "solution-in-image", map[string]string{
			"environment/bug.patch": patch, "solution/fix.patch": patch, dockerfile: "FROM debian:12\nWORKDIR /app\nADD *.patch /tmp/\nRUN patch -R -p1 < /tmp/bug.patch\n",
		}, dockerfile + ":3"},
		{"a patch that is only mounted", "solution-in-image", map[string]string{
			"environment/bug.patch": patch, "solution/fix.patch": patch, dockerfile: "FROM debian:12\nWORKDIR /app\nRUN --mount=type=bind,source=bug.patch,target=/b patch -R -p1 < /b\n",
		}, ""},
		{"what .dockerignore keeps out", "solution-in-image", map[string]string{"environment/answer": good[solve], "environment/.dockerignore": "answer\n", dockerfile: "FROM debian:12\nWORKDIR /app\nCOPY . .\n"}, ""},
		{"a file that the solution needs as well", "solution-in-image", map[string]string{"environment/app.py": patch, "solution/app.py": patch, dockerfile: "FROM debian:12\nWORKDIR /app\nCOPY . .\n"}, ""},
		{"the test in the image", "tests-in-image", map[string]string{"environment/check": good[test], dockerfile: "FROM debian:12\nWORKDIR /app\nCOPY check /app/\n"}, dockerfile + ":3"},
		{"the project's tests, which the agent has", "tests-in-image", map[string]string{"tests/test_app.py": patch, "environment/test_app.py": patch, dockerfile: "FROM debian:12\nWORKDIR /app\nCOPY . .\n"}, ""},

		{"a step whose tests write no reward", "reward-missing", steps(map[string]string{"steps/one/tests/test.sh": "#!/bin/bash\ntrue\n"}), "steps/one/tests/test.sh:0"},
		{"a step with the task's tests", "reward-missing", map[string]string{
			toml: twoSteps, "instruction.md": "", "steps/one/instruction.md": "do", "steps/two/instruction.md": "do", "tests/test.sh": "#!/bin/bash\ntrue\n",
		}, "tests/test.sh:0"},
		{"set -e in a step", "reward-missing", steps(map[string]string{"steps/two/tests/test.sh": "#!/bin/bash\nset -e\npytest\necho 1 > /logs/verifier/reward.txt\n"}), "steps/two/tests/test.sh:3"},
		{"Windows line ends in a step's solution", "crlf", steps(map[string]string{"steps/one/solution/solve.sh": "#!/bin/bash\ntrue\r\n"}), "steps/one/solution/solve.sh:2"},
		{"a step without #!", "shebang", steps(map[string]string{"steps/one/tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n"}), "steps/one/tests/test.sh:1"},
		{"a step's instruction that names its tests", "instruction-leak", steps(map[string]string{"steps/two/instruction.md": "Run /tests/test.sh.\n"}), "steps/two/instruction.md:1"},
		{"another step's tests", "instruction-leak", steps(map[string]string{"steps/two/instruction.md": "Run /tests/more.sh.\n", "steps/one/tests/more.sh": "true\n"}), ""},
		{"a network in a step's tests", "verifier-network", steps(map[string]string{"steps/two/tests/test.sh": "#!/bin/bash\npip install numpy\necho 1 > /logs/verifier/reward.txt\n"}), "steps/two/tests/test.sh:2"},
		{"the image of a step's tests", "copy-source", steps(map[string]string{
			toml: twoSteps + "verifier.environment_mode = \"separate\"\n", "steps/two/tests/Dockerfile": "FROM debian:12\nCOPY test.sh grade.py /tests/\n",
		}), "steps/two/tests/Dockerfile:2"},
		{"steps without findings", "", steps(nil), ""},
		{"a name with a colon", "file-name", file("environment/a:b/x", "x"), "environment/a:b/x:0"},
		{"a name with a space and a dot", "file-name", file("environment/.a b", "x"), ""},

		{"milliseconds for seconds", "long-timeout", file(toml, "version = \"1.0\"\n[agent]\ntimeout_sec = 600000\n"), toml + ":0"},
		{"an hour", "long-timeout", file(toml, "version = \"1.0\"\n[agent]\ntimeout_sec = 3600\n"), ""},

		{"an AWS key", "secret", file("environment/x", "a\nid = AKIA"+"QZ3RKW7VYB2LXNMH"+"\n"), "environment/x:2"},
		{"AWS's own example", "secret", file("environment/x", "AKIA"+"IOSFODNN7EXAMPLE"), ""},
		{"a GitHub token", "secret", file(solve, "#!/bin/bash\nT="+summed("ghp_")+"\n"), solve + ":2"},
		{"a token that readers of checksums publish as an example", "secret", file("environment/x", "ghp_"+"zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq17"), "environment/x:1"},
		{"a GitHub token in a test", "secret", file("tests/test_login.py", "T = '"+summed("gho_")+"'\n"), "tests/test_login.py:1"},
		{"an npm token", "secret", file("environment/.npmrc", "//registry/:_authToken="+summed("npm_")+"\n"), "environment/.npmrc:1"},
		{"what only has the form of a GitHub token", "secret", file("environment/x", "T: ghp_"+random[:36]+"\n"), ""},
		{"a GitHub token that is none", "secret", file(solve, "#!/bin/bash\nT=ghp_"+strings.Repeat("x", 36)+"\n"), ""},
		{"a key of the tests", "secret", file("tests/x", "AKIA"+"QZ3RKW7VYB2LXNMH"), ""},
		{"a key of tests in the image", "secret", file("environment/repo/pkg/client_test.go", "const key = \"AKIA"+"QZ3RKW7VYB2LXNMH\"\nvar apiKey = \""+random[:32]+"\"\n"), ""},
		{"a certificate's key for tests", "secret", file("environment/repo/testdata/server.pem", "-----BEGIN "+"PRIVATE KEY-----\n"+random+"\n-----END"), ""},
		{"keys in several places are one finding, of the surest", "secret", map[string]string{
			"environment/a": "id = AKIA" + "QZ3RKW7VYB2LXNMH\n", "environment/z": "a\nghp: " + summed("ghp_"), solve: "#!/bin/bash\nAPI_KEY=" + random[:32] + "\n",
		}, "environment/z:2"},
		{"a fine-grained GitHub token", "secret", file("instruction.md", "github_pat_"+random[:82]), "instruction.md:1"},
		{"a Slack token", "secret", file("environment/x", "xox"+"b-123456789012-1234567890123-"+random[:24]), "environment/x:1"},
		{"an OpenAI key", "secret", file("environment/x", "sk-proj-"+random[:40]+"T3BlbkFJ"+random[:40]), "environment/x:1"},
		{"an Anthropic key", "secret", file("environment/x", "sk-ant-api03-"+random[:93]+"AA"), "environment/x:1"},
		{"a word with the prefix", "secret", file("environment/x", "sk-ant-hill and hf_hub_download and npm_config_cache"), ""},
		{"a private key", "secret", file("environment/x", "-----BEGIN OPENSSH "+"PRIVATE KEY-----\n"+random+"\n-----END"), "environment/x:1"},
		{"the name of a private key's format", "secret", file("environment/x", "begins with -----BEGIN "+"PRIVATE KEY-----, and so on\n"), ""},
		{"a variable", "secret", file("environment/.env", "SERVICE_API_KEY="+random[:32]), "environment/.env:1"},
		{"a hash for a variable", "secret", file("environment/.env", "session_token: '0f4c8d1b7a2e9f3650c4d8e1b7a29f36'"), "environment/.env:1"},
		{"a variable of a program", "secret", file("environment/a.py", "API_KEY = '"+random[:32]+"'\n"), "environment/a.py:1"},
		{"an expression of a program", "secret", file("environment/a.go", "privateKey := ed25519lib.NewKeyFromSeed42(seed)\nx := T{privateKey: parsedED25519KeyOfTheServer,\n}\n"), ""},
		{"a call in a script", "secret", file("environment/a.groovy", "secretKey = Loader7.readKeyFromVaultOf(name)\n"), ""},
		{"placeholders", "secret", file("environment/.env", "API_KEY=your-api-key-goes-here-1\nTOKEN=${TOKEN_FROM_OUTSIDE_1}\nSECRET_KEY=change-me-In-Production-42\nprivate_key=/root/.ssh/id_ed25519_Key\nsort_key: customer.name.last_name.1\ncache_token = next_page_token_value_1"), ""},
	} {
		t.Run(c.rule+", "+c.name, func(t *testing.T) {
			found := prove.Lint(load(t, c.files))
			if c.rule != "" {
				found = of(found, c.rule)
			}
			var got []string
			for _, f := range found {
				got = append(got, fmt.Sprintf("%s:%d", f.File, f.Line))
				if strings.Contains(f.Message, random[:30]) || strings.Contains(f.Message, random[8:36]) {
					t.Errorf("the secret is in %q", f.Message)
				}
				if f.Hint == "" || f.Message == "" || strings.HasSuffix(f.Message, ".") {
					t.Errorf("%q (%q) does not say what to do", f.Message, f.Hint)
				}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("found %q, want %q: %v", s, c.want, found)
			}
		})
	}
}

func TestLargeFile(t *testing.T) {
	task := load(t, map[string]string{"environment/a": "x", "environment/b": "x"})
	must(t, os.Truncate(filepath.Join(task.Dir, "environment/a"), 50<<20+1))
	must(t, os.Truncate(filepath.Join(task.Dir, "environment/b"), 50<<20))
	found := of(prove.Lint(task), "large-file")
	if len(found) != 1 || found[0].File != "environment/a" {
		t.Errorf("found %v", found)
	}
}

// A link out of the task reveals nothing about its target.
func TestLinksAreNotFollowed(t *testing.T) {
	task := load(t, nil)
	outside := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(outside, []byte(summed("ghp_")), 0o600))
	must(t, os.Symlink(outside, filepath.Join(task.Dir, "environment", "key")))
	must(t, os.Symlink(filepath.Dir(outside), filepath.Join(task.Dir, "environment", "directory")))
	if found := prove.Lint(task); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

func TestCRLFIsReportedOnce(t *testing.T) {
	task := load(t, map[string]string{"tests/test.sh": "#!/bin/bash\r\necho 1 > /logs/verifier/reward.txt\r\n"})
	if found := prove.Lint(task); len(found) != 1 || found[0].Rule != "crlf" {
		t.Errorf("found %v", found)
	}
}

func TestProblemsOfLoadingAreFindings(t *testing.T) {
	found := prove.Lint(load(t, map[string]string{"instruction.md": "", "task.toml": "version = \"1.0\"\nodd = 1\n"}))
	if len(found) != 2 || found[0].Place("x") != "x/instruction.md" || found[0].Severity != prove.Error ||
		found[1].Place("x") != "x/task.toml:2:1" || found[1].Severity != prove.Warning {
		t.Errorf("found %v", found)
	}
}

func TestIgnore(t *testing.T) {
	files := map[string]string{
		"environment/Dockerfile": "FROM debian\n",
		"task.toml": "version = \"1.0\"\n[metadata.lint.ignore]\nworkdir = \"the root is the task\"\nunpinned-image = \" \"\n" +
			"flaky = \"it just is\"\nsecrets = \"a typo\"\n",
	}
	found := prove.Lint(load(t, files))
	if got := of(found, "workdir"); len(got) != 1 || got[0].Ignored != "the root is the task" {
		t.Errorf("workdir: %v", got)
	}
	if got := of(found, "unpinned-image"); len(got) != 1 || got[0].Ignored != "" {
		t.Errorf("unpinned-image: %v", got)
	}
	var said []string
	for _, f := range of(found, "lint-ignore") {
		said = append(said, f.Message+": "+f.Hint)
	}
	want := `metadata.lint.ignore gives no reason for unpinned-image, so it is not ignored: unpinned-image = "the reason"
metadata.lint.ignore names the rule "secrets", which does not exist: did you mean "secret"?
metadata.lint.ignore names the rule flaky, which cannot be ignored: the verdict depends on it`
	if got := strings.Join(said, "\n"); got != want {
		t.Errorf("got\n%s", got)
	}
	for _, odd := range []string{"lint = 1", "[metadata.lint]\nother = 1"} { // somebody's own
		files["task.toml"] = "version = \"1.0\"\n[metadata]\n" + odd + "\n"
		if got := of(prove.Lint(load(t, files)), "lint-ignore"); len(got) > 0 {
			t.Errorf("%s: %v", odd, got)
		}
	}
	files["task.toml"] = "version = \"1.0\"\n[metadata.lint]\nignore = [\"workdir\"]\n"
	if got := of(prove.Lint(load(t, files)), "lint-ignore"); len(got) != 1 {
		t.Errorf("a list: %v", got)
	}
}

// A dataset's lint.toml selects and ignores rules for all of its tasks. What a task ignores itself
// keeps the task's reason.
func TestDatasetFile(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"none", "", `unpinned-image "", workdir "the root"`},
		{"ignore", "[ignore]\nunpinned-image = \"ours never moves\"\nworkdir = \"another reason\"\n", `unpinned-image "ours never moves", workdir "the root"`},
		{"select", "select = [\"workdir\", \"flaky\"]\n", `unpinned-image "lint.toml does not select it", workdir "the root"`},
		{"select nothing", "select = []\n", `unpinned-image "lint.toml does not select it", workdir "the root"`},
		{"mistakes", "select = [\"secrets\"]\n[ignore]\nflaky = \"so\"\nworkdir = 1\n", `lint-ignore:0 ignore gives no reason for workdir, so it is not ignored, lint-ignore:0 ignore names the rule flaky, which cannot be ignored, lint-ignore:0 select names the rule "secrets", which does not exist, unpinned-image "lint.toml does not select it", workdir "the root"`},
		{"an unknown key", "select = [\"workdir\"]\nignored = 1\n", `lint-ignore:2 unknown key "ignored", unpinned-image "", workdir "the root"`},
		{"no TOML", "\nselect = [", `lint-ignore:2 `},
		{"too large", strings.Repeat("# x\n", 1<<15), `lint-ignore:0 the file cannot be read`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			loaded := load(t, map[string]string{
				"environment/Dockerfile": "FROM debian\n", "task.toml": "version = \"1.0\"\n[metadata.lint.ignore]\nworkdir = \"the root\"\n",
			})
			if tc.text != "" {
				must(t, os.WriteFile(filepath.Join(filepath.Dir(loaded.Dir), "lint.toml"), []byte(tc.text), 0o600))
			}
			var said []string
			for _, f := range prove.Lint(loaded) {
				text := fmt.Sprintf("%s %q", f.Rule, f.Ignored)
				if f.Rule == "lint-ignore" {
					text = fmt.Sprintf("%s:%d %s", f.Rule, f.Line, f.Message)
					if f.Place("evals/greet") != "evals/lint.toml" && !strings.HasPrefix(f.Place("evals/greet"), "evals/lint.toml:") {
						t.Errorf("the place is %s", f.Place("evals/greet"))
					}
				}
				said = append(said, text)
			}
			slices.Sort(said)
			if got := strings.Join(said, ", "); !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// Every rule has a test, and is in the list.
func TestEveryFindingHasARule(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range prove.Rules {
		if seen[r.ID] || r.Doc == "" || strings.HasSuffix(r.Doc, ".") {
			t.Errorf("rule %+v", r)
		}
		seen[r.ID] = true
	}
}

// TestErrorsOfScriptsAndDockerfiles: a problem that keeps a task from running is an error, one that
// may be intended a warning.
func TestErrorsOfScriptsAndDockerfiles(t *testing.T) {
	const windows = "#!/bin/bash\r\nset -u\r\n"
	for _, c := range []struct {
		name, rule string
		files      map[string]string
		format     task.Format
		want       prove.Severity
		line       int
	}{
		{"a test", "crlf", map[string]string{"tests/test.sh": windows}, task.FormatRollout, prove.Error, 2},
		{"a library of the tests", "crlf", map[string]string{"tests/lib.sh": "f() {\r\n  true\r\n}\r\n"}, task.FormatRollout, prove.Error, 1},
		{"a solution that is executed", "crlf", map[string]string{"solution/solve.sh": windows}, task.FormatHarbor, prove.Error, 1},
		{"a solution of python's that is executed", "crlf", map[string]string{"solution/solve.sh": "#!/usr/bin/env python3\r\nprint()\r\n"}, task.FormatHarbor, prove.Error, 1},
		{"a script of the image, which may convert it", "crlf", map[string]string{"environment/run.sh": windows}, task.FormatRollout, prove.Warning, 2},
		{"a mark before a command", "bom", map[string]string{"tests/test.sh": "\ufeffset -e\necho 1 > /logs/verifier/reward.txt\n"}, task.FormatRollout, prove.Error, 1},
		{"a mark before #!, after which bash goes on", "bom", map[string]string{"tests/test.sh": "\ufeff#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"}, task.FormatRollout, prove.Warning, 1},
		{"a mark before the interpreter of a program that is executed", "bom", map[string]string{"solution/solve.sh": "\ufeff#!/usr/bin/env python3\nprint()\n"}, task.FormatHarbor, prove.Error, 1},
		{"a mark in a script of the image, which may convert it", "bom", map[string]string{"environment/run.sh": "\ufeffset -e\n"}, task.FormatRollout, prove.Warning, 1},
		{"a mistake in a test", "bash-syntax", map[string]string{"tests/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\nif\n"}, task.FormatRollout, prove.Warning, 3},
		{"what bash knows and the parser does not", "bash-syntax", map[string]string{"tests/lib.sh": "#!/bin/bash\ndeclare -A a=([x y]=1)\n"}, task.FormatRollout, prove.Warning, 2},
		{"an instruction that nobody knows", "dockerfile", map[string]string{"environment/Dockerfile": "FROM debian:12\nWORKDIR /a\nCPY a b\n"}, task.FormatRollout, prove.Error, 3},
		{"one for a ready-made image", "dockerfile", map[string]string{
			"environment/Dockerfile": "FROM debian:12\nWORKDIR /a\nCPY a b\n", "task.toml": "version = \"1.0\"\nenvironment.docker_image = \"debian:12\"\n",
		}, task.FormatRollout, prove.Warning, 3},
		{"one for another frontend", "dockerfile", map[string]string{"environment/Dockerfile": "# syntax=example.org/mine:1\nFROM debian:12\nINCLUDE x\n"}, task.FormatRollout, prove.Warning, 3},
		{"one for Docker's frontend", "dockerfile", map[string]string{"environment/Dockerfile": "# syntax=docker/dockerfile:1\nFROM debian:12\nINCLUDE x\n"}, task.FormatRollout, prove.Error, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := load(t, c.files).Dir
			loader := task.Loader{Options: task.Options{Format: c.format}}
			found := of(prove.Lint(loader.Load(dir)), c.rule)
			if len(found) != 1 || found[0].Severity != c.want || found[0].Line != c.line {
				t.Errorf("found %+v, want one %s in line %d", found, c.want, c.line)
			}
		})
	}
}
