package prove

import (
	"bytes"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
)

// secretKind is one kind of secret. The first group of its pattern, if it has one, is the secret.
type secretKind struct {
	name    string
	holds   []string // every secret contains one of them, and searching for them is fast
	pattern *regexp.Regexp
	entropy float64 // in bits per character; a value with less is a placeholder
}

// secretKinds lists secrets with a distinctive form.
// Source: gitleaks (MIT), config/gitleaks.toml, and the issuers' documentation.
var secretKinds = []secretKind{
	{"an AWS access key", []string{"AKIA", "ASIA", "ABIA", "ACCA"}, regexp.MustCompile(`\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b`), 3},
	{"a GitHub token", []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"}, regexp.MustCompile(`\b(gh[pousr]_[0-9A-Za-z]{36}|github_pat_\w{82})\b`), 3},
	{"a GitLab token", []string{"glpat-"}, regexp.MustCompile(`\b(glpat-[\w-]{20})\b`), 3},
	{"a Slack token", []string{"xox"}, regexp.MustCompile(`\b(xox[abeprs]-(?:\d+-)?\d{10,13}-\d{10,13}[0-9A-Za-z-]*)`), 2.5},
	{"a Slack webhook", []string{"hooks.slack.com"}, regexp.MustCompile(`(hooks\.slack\.com/(?:services|workflows|triggers)/[A-Z0-9]+/[A-Z0-9]+/[0-9A-Za-z]{20,})`), 3},
	{"an OpenAI key", []string{"T3BlbkFJ"}, regexp.MustCompile(`\b(sk-(?:(?:proj|svcacct|admin)-)?[\w-]{20,}T3BlbkFJ[\w-]{20,})`), 3},
	{"an Anthropic key", []string{"sk-ant-"}, regexp.MustCompile(`\b(sk-ant-(?:api03|admin01|oat01)-[\w-]{80,})`), 3},
	{"a Google key", []string{"AIza"}, regexp.MustCompile(`\b(AIza[\w-]{35})(?:[^\w-]|$)`), 4},
	{"a Stripe key", []string{"_live_"}, regexp.MustCompile(`\b((?:sk|rk)_live_[0-9A-Za-z]{16,99})\b`), 3},
	{"a Hugging Face token", []string{"hf_"}, regexp.MustCompile(`\b(hf_[A-Za-z]{34})\b`), 3},
	{"an npm token", []string{"npm_"}, regexp.MustCompile(`\b(npm_[0-9A-Za-z]{36})\b`), 3},
	{"a PyPI token", []string{"pypi-"}, regexp.MustCompile(`\b(pypi-AgEIcHlwaS5vcmc[\w-]{50,})`), 3},
	{"a private key", []string{"PRIVATE KEY"}, regexp.MustCompile(`(-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----\s+(?:[A-Za-z-]+: [^\n]*\s+)*[0-9A-Za-z+/=\s]{64,})`), 3},
}

// assigned matches a value that is assigned to a variable for secrets.
var assigned = regexp.MustCompile(`(?i)\b[a-z0-9_-]*(?:api_?key|access_?key|secret_?key|private_?key|secret|token)["']?[ \t]*(?::=|=|:)[ \t]*["']?([0-9A-Za-z+/_.=-]{20,200})`)

// placeholders matches words of values that are no secrets.
var placeholders = regexp.MustCompile(`(?i)example|change|placeholder|dummy|fake|sample|your|xxx|1234567|abcdef|redacted|secret|password|token|test`)

// maxAssigned is the size of the part of a file that is searched for variables, in bytes. Code and
// settings are shorter.
const maxAssigned = 256 << 10

// maxSecrets limits the findings in one file.
const maxSecrets = 5

// secrets finds keys and tokens. It never quotes a whole one.
func secrets(f file) []Finding {
	var out []Finding
	seen := map[int]bool{} // lines
	add := func(at int, severity Severity, what, hint string) {
		if line := lineAt(f.head, at); !seen[line] && len(out) < maxSecrets {
			seen[line] = true
			out = append(out, Finding{Rule: ruleSecret, Severity: severity, File: f.name, Line: line, Message: what, Hint: hint})
		}
	}
	for _, kind := range secretKinds {
		if !slices.ContainsFunc(kind.holds, func(part string) bool { return bytes.Contains(f.head, []byte(part)) }) {
			continue
		}
		for _, at := range kind.pattern.FindAllSubmatchIndex(f.head, maxSecrets) {
			secret := string(f.head[at[2]:at[3]])
			if entropy(secret) >= kind.entropy && !strings.HasSuffix(secret, "EXAMPLE") {
				add(at[2], Error, fmt.Sprintf("this looks like %s (%s)", kind.name, maskSecret(secret)),
					"revoke it, because everyone with access to the repository can read it; if it was made for this task alone, name the rule in metadata.lint.ignore")
			}
		}
	}
	for _, at := range assigned.FindAllSubmatchIndex(f.head[:min(len(f.head), maxAssigned)], -1) {
		if secret := string(f.head[at[2]:at[3]]); isRandom(secret) && !isCode(f, at[2], at[3]) {
			add(at[2], Warning, fmt.Sprintf("a key or token seems to be set to a real value (%s)", maskSecret(secret)),
				"pass it in from outside, or make it while the image is built")
		}
	}
	return out
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
