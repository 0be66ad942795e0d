package prove

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/crc32"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/lib/plural"
)

// secretKind is one kind of secret. The first group of its pattern, if it has one, is the secret.
type secretKind struct {
	name    string
	holds   []string // every secret contains one of them, and searching for them is fast
	pattern *regexp.Regexp
	entropy float64 // in bits per character; a value with less is a placeholder
	summed  bool    // its last six characters are a checksum of those after its prefix
}

// secretKinds lists secrets with a distinctive form.
// Source: gitleaks (MIT), config/gitleaks.toml, and the issuers' documentation.
var secretKinds = []secretKind{
	{"a GitHub token", []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, regexp.MustCompile(`\b(gh[pousr]_[0-9A-Za-z]{36})\b`), 3, true},
	{"an npm token", []string{"npm_"}, regexp.MustCompile(`\b(npm_[0-9A-Za-z]{36})\b`), 3, true},
	{"a GitHub token", []string{"github_pat_"}, regexp.MustCompile(`\b(github_pat_\w{82})\b`), 3, false},
	{"an AWS access key", []string{"AKIA", "ASIA", "ABIA", "ACCA"}, regexp.MustCompile(`\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b`), 3, false},
	{"a GitLab token", []string{"glpat-"}, regexp.MustCompile(`\b(glpat-[\w-]{20})\b`), 3, false},
	{"a Slack token", []string{"xox"}, regexp.MustCompile(`\b(xox[abeprs]-(?:\d+-)?\d{10,13}-\d{10,13}[0-9A-Za-z-]*)`), 2.5, false},
	{"a Slack webhook", []string{"hooks.slack.com"}, regexp.MustCompile(`(hooks\.slack\.com/(?:services|workflows|triggers)/[A-Z0-9]+/[A-Z0-9]+/[0-9A-Za-z]{20,})`), 3, false},
	{"an OpenAI key", []string{"T3BlbkFJ"}, regexp.MustCompile(`\b(sk-(?:(?:proj|svcacct|admin)-)?[\w-]{20,}T3BlbkFJ[\w-]{20,})`), 3, false},
	{"an Anthropic key", []string{"sk-ant-"}, regexp.MustCompile(`\b(sk-ant-(?:api03|admin01|oat01)-[\w-]{80,})`), 3, false},
	{"a Google key", []string{"AIza"}, regexp.MustCompile(`\b(AIza[\w-]{35})(?:[^\w-]|$)`), 4, false},
	{"a Stripe key", []string{"_live_"}, regexp.MustCompile(`\b((?:sk|rk)_live_[0-9A-Za-z]{16,99})\b`), 3, false},
	{"a Hugging Face token", []string{"hf_"}, regexp.MustCompile(`\b(hf_[A-Za-z]{34})\b`), 3, false},
	{"a PyPI token", []string{"pypi-"}, regexp.MustCompile(`\b(pypi-AgEIcHlwaS5vcmc[\w-]{50,})`), 3, false},
	{"a private key", []string{"PRIVATE KEY"}, regexp.MustCompile(`(-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----\s+(?:[A-Za-z-]+: [^\n]*\s+)*[0-9A-Za-z+/=\s]{64,})`), 3, false},
}

// assigned matches a value in a line that is assigned to a variable for secrets. The value has at
// least minAssigned bytes.
var assigned = regexp.MustCompile(`(?i)\b[a-z0-9_-]*(?:api_?key|access_?key|secret_?key|private_?key|secret|token)["']?[ \t]*(?::=|=|:)[ \t]*["']?([0-9A-Za-z+/_.=-]{20,200})`)

const minAssigned = 20

// assignedWords are in every line that assigned matches, in any case.
var assignedWords = [][]byte{[]byte("key"), []byte("secret"), []byte("token")}

// placeholders matches words of values that are no secrets.
var placeholders = regexp.MustCompile(`(?i)example|change|placeholder|dummy|fake|sample|your|xxx|1234567|abcdef|redacted|secret|password|token|test`)

// madeUp matches the names of files and directories in which keys are made up: tests, what tests
// read, examples, and code of others.
var madeUp = regexp.MustCompile(`(?i)(?:^|[/._-])(?:tests?|testing|testdata|testutils?|specs?|e2e|fixtures?|mocks?|stubs?|fakes?|examples?|samples?|demos?|docs?|vendor|node_modules|third_party)(?:[/._-]|$)`)

// maxAssigned is the size of the part of a file that is searched for variables, in bytes. Code and
// settings are shorter.
const maxAssigned = 256 << 10

// leak is a key or token in a file.
type leak struct {
	file  string
	line  int
	found string // "this looks like a GitHub token (ghp_…, 40 characters)"
	sure  int    // the less, the surer
}

// How sure a leak is.
const (
	byChecksum = iota
	byForm
	byName
)

// secrets finds keys and tokens: everywhere those whose issuer's checksum is right, and in places
// where they are not made up those with the form of one. It never quotes a whole one.
func secrets(f file) []leak {
	var out []leak
	lines := map[int]bool{}
	add := func(at, sure int, format string, args ...any) {
		if line := lineAt(f.head, at); !lines[line] {
			lines[line] = true
			out = append(out, leak{f.name, line, fmt.Sprintf(format, args...), sure})
		}
	}
	likely := !madeUp.MatchString(f.name)
	for _, kind := range secretKinds {
		if !kind.summed && !likely || !slices.ContainsFunc(kind.holds, func(part string) bool { return bytes.Contains(f.head, []byte(part)) }) {
			continue
		}
		for _, at := range kind.pattern.FindAllSubmatchIndex(f.head, -1) {
			secret := string(f.head[at[2]:at[3]])
			switch {
			case entropy(secret) < kind.entropy, strings.HasSuffix(secret, "EXAMPLE"):
			case !kind.summed:
				add(at[2], byForm, "this looks like %s (%s)", kind.name, maskSecret(secret))
			case hasChecksum(secret):
				add(at[2], byChecksum, "this is %s, for its checksum is right (%s)", kind.name, maskSecret(secret))
			}
		}
	}
	if !likely {
		return out
	}
	from := 0
	for line := range bytes.Lines(f.head[:min(len(f.head), maxAssigned)]) {
		if mayAssign(line) {
			for _, at := range assigned.FindAllSubmatchIndex(line, -1) {
				if secret := string(line[at[2]:at[3]]); isRandom(secret) && !isCode(f, from+at[2], from+at[3]) {
					add(from+at[2], byName, "a key or token seems to be set to a real value (%s)", maskSecret(secret))
				}
			}
		}
		from += len(line)
	}
	return out
}

// secretFinding returns the finding about all keys and tokens of a task: the surest one, and how
// many others there are. Keys in tasks are mostly made up, so it never is an error.
func secretFinding(leaks []leak) []Finding {
	if len(leaks) == 0 {
		return nil
	}
	first := slices.MinFunc(leaks, func(a, b leak) int { return cmp.Compare(a.sure, b.sure) })
	message := first.found
	if more := len(leaks) - 1; more > 0 {
		message += fmt.Sprintf("; %s of the task may have one, too", plural.Count(more, "other place"))
	}
	return []Finding{{Rule: ruleSecret, Severity: Warning, File: first.file, Line: first.line, Message: message,
		Hint: "revoke it if it is real: everyone with access to the repository can read it; if it was made for this task alone, name the rule in metadata.lint.ignore"}}
}

// valueByte tells which bytes a value of assigned has.
var valueByte = func() (set [256]bool) {
	for c := range set {
		set[c] = isNameByte(byte(c)) || strings.IndexByte("+/.=", byte(c)) >= 0
	}
	return set
}()

// mayAssign reports whether assigned may match in a line. It is much faster.
func mayAssign(line []byte) bool {
	run, longest := 0, 0
	for _, c := range line {
		if valueByte[c] {
			run++
		} else {
			longest, run = max(longest, run), 0
		}
	}
	return max(longest, run) >= minAssigned && slices.ContainsFunc(assignedWords, func(word []byte) bool { return containsFold(line, word) })
}

// containsFold reports whether a text contains a word of small letters of ASCII, in any case.
func containsFold(text, word []byte) bool {
	for at := 0; at+len(word) <= len(text); at++ {
		if text[at]|0x20 == word[0] && bytes.EqualFold(text[at:at+len(word)], word) {
			return true
		}
	}
	return false
}

// hasChecksum reports whether a token of GitHub's or npm's form ends with its checksum: the CRC-32
// of the 30 characters after the prefix, in base 62.
// Source: github.blog, "Behind GitHub's new authentication token formats".
func hasChecksum(token string) bool {
	const prefix, digits, alphabet = 4, 6, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	end := len(token) - digits
	sum := crc32.ChecksumIEEE([]byte(token[prefix:end]))
	for at := len(token) - 1; at >= end; at-- {
		if token[at] != alphabet[sum%62] {
			return false
		}
		sum /= 62
	}
	return true
}

// codeExtensions lists the extensions of languages with quoted strings.
var codeExtensions = []string{
	".c", ".cc", ".cpp", ".cs", ".go", ".h", ".hpp", ".java", ".js", ".jsx", ".kt", ".lua", ".mjs", ".php", ".py", ".rb", ".rs", ".scala", ".swift", ".ts", ".tsx",
}

// isCode reports whether a value is an expression: in a program one without quotes, elsewhere a
// function call.
func isCode(f file, from, to int) bool {
	quoted := from > 0 && (f.head[from-1] == '"' || f.head[from-1] == '\'' || f.head[from-1] == '`')
	called := to < len(f.head) && f.head[to] == '('
	return !quoted && (called || slices.Contains(codeExtensions, path.Ext(f.name)))
}

// maskSecret returns the part of a secret that is needed to find it.
func maskSecret(secret string) string {
	if line, _, ok := strings.Cut(secret, "\n"); ok {
		return strings.TrimSpace(line) + " …"
	}
	return fmt.Sprintf("%s…, %d characters", secret[:4], len(secret))
}

// isRandom reports whether a text looks random.
func isRandom(s string) bool {
	digits := strings.ContainsAny(s, "0123456789")
	lower, upper := strings.ToUpper(s) != s, strings.ToLower(s) != s
	switch {
	case !digits || placeholders.MatchString(s) || strings.HasPrefix(s, "/"):
		return false
	case len(s) >= 32 && strings.Trim(strings.ToLower(s), "0123456789abcdef") == "":
		return entropy(s) >= 3.3
	}
	return lower && upper && entropy(s) >= 4
}

// entropy returns Shannon's entropy in bits per byte.
func entropy(s string) float64 {
	var counts [256]float64
	for i := range len(s) {
		counts[s[i]]++
	}
	sum := 0.0
	for _, n := range counts {
		if n > 0 {
			p := n / float64(len(s))
			sum -= p * math.Log2(p)
		}
	}
	return sum
}
