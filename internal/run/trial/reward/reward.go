// Package reward parses the files in which tests and agents report numbers: rewards, and the cost
// of a model. The caller reads the files from the environment.
package reward

import (
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// Paths of rewards, below /logs and below the trial's logs directory.
const (
	Path     = "verifier/reward.txt"
	JSONPath = "verifier/reward.json"
)

// number is a decimal with optional exponent: not "inf", "nan", "0x1p-2" or "1_000".
var number = regexp.MustCompile(`^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$`)

// digitSeparators matches the underscores that Python allows in numbers: single ones, between
// digits.
var digitSeparators = regexp.MustCompile(`(\d)_(\d)`)

// File is a file of the environment that is read while the logs are copied. It is kept in
// memory, so that neither a full disk nor a redacted value can change a verdict.
type File struct {
	Found bool
	Size  int64  // of the file
	text  string // its first environment.MaxTap bytes
}

// ErrTooLong reports a file whose end was not read. Its beginning alone is no reward.
var ErrTooLong = fmt.Errorf("is larger than %d KiB", environment.MaxTap>>10)

// Whole returns the file's text, or ErrTooLong.
func (r *File) Whole() (string, error) {
	if r.Size > int64(len(r.text)) {
		return "", ErrTooLong
	}
	return r.text, nil
}

func (r *File) Write(p []byte) (int, error) {
	r.Found, r.text = true, string(p)
	return len(p), nil
}

// Files holds the files that a verdict is read from.
type Files struct{ Text, JSON File }

// Verdict is the content of the reward files.
type Verdict struct {
	Reward float64
	All    map[string]float64 // of reward.json; nil without one
	Note   string             // the problem with the file that does not count; "" if there is none
}

// Complete reports whether no other file could change the verdict.
func (r *Files) Complete(rules task.Rules) bool {
	if rules.JSONFirst {
		return r.JSON.Found
	}
	return r.Text.Found
}

// Read returns the verdict of a test script that ended with code. It fails with
// verifier_reward_missing or verifier_reward_invalid, whose message may quote the file, without
// what secrets hides.
// Source: specification, "reward.txt"; of reward.json, Harbor 0.22,
// src/harbor/verifier/verifier.py.
func (r *Files) Read(rules task.Rules, code int, secrets *redact.Redactor) (Verdict, *failure.Error) {
	switch {
	case r.JSON.Found && (rules.JSONFirst || !r.Text.Found):
		v, err := r.JSON.rewards(rules.LenientRewards, secrets)
		if err != nil {
			return Verdict{}, failure.Newf(result.VerifierRewardInvalid, "%s/%s %v: write an object with finite numbers there, such as {\"reward\": 1}", environment.LogsDir, JSONPath, err)
		}
		return v, nil
	case r.Text.Found:
		reward, err := r.Text.number(rules.LenientRewards, secrets)
		if err != nil {
			return Verdict{}, failure.Newf(result.VerifierRewardInvalid, "%s/%s %v: write one finite number there", environment.LogsDir, Path, err)
		}
		return r.withParts(Verdict{Reward: reward}, rules, secrets), nil
	}
	return Verdict{}, failure.Newf(result.VerifierRewardMissing,
		"the test script ended with %d but left no file %s/%s (nor %s): end tests/test.sh by writing a number there (1 for success, 0 for failure)",
		code, environment.LogsDir, Path, path.Base(JSONPath))
}

// withParts returns a verdict of reward.txt with the rewards of reward.json added.
func (r *Files) withParts(v Verdict, rules task.Rules, secrets *redact.Redactor) Verdict {
	if !r.JSON.Found {
		return v
	}
	parts, err := r.JSON.rewards(rules.LenientRewards, secrets)
	if err != nil {
		v.Note = fmt.Sprintf("%s/%s %v, so its rewards are not kept: the reward is that of reward.txt", environment.LogsDir, JSONPath, err)
	}
	v.All = parts.All
	return v
}

// number reads the file as one finite number.
func (r *File) number(lenient bool, secrets *redact.Redactor) (float64, error) {
	text, err := r.Whole()
	if err != nil {
		return 0, err
	}
	return parseReward(text, lenient, secrets)
}

// parseReward reads one finite number, with white space around it; a lenient one as Python would
// write it.
func parseReward(text string, lenient bool, secrets *redact.Redactor) (float64, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, errors.New("is empty")
	}
	plain := text
	if lenient {
		plain = digitSeparators.ReplaceAllString(digitSeparators.ReplaceAllString(text, "$1$2"), "$1$2") // twice, for 1_2_3
	}
	if !number.MatchString(plain) {
		return 0, fmt.Errorf("holds %s, which is not a number", quoted(secrets.String(text)))
	}
	reward, err := strconv.ParseFloat(plain, 64)
	if err != nil || math.IsInf(reward, 0) {
		return 0, fmt.Errorf("holds %s, which is out of range", quoted(secrets.String(text)))
	}
	return reward, nil
}

// quoted quotes the beginning and the end of hostile text. It must have been redacted: secrets that
// are cut are not recognised.
func quoted(text string) string {
	const head, tail = 30, 10
	if len(text) <= head+tail {
		return strconv.QuoteToASCII(text)
	}
	return fmt.Sprintf("%s […%d bytes…] %s", strconv.QuoteToASCII(text[:head]), len(text)-head-tail, strconv.QuoteToASCII(text[len(text)-tail:]))
}
