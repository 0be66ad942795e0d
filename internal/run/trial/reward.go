package trial

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
	rewardPath     = "verifier/reward.txt"
	rewardJSONPath = "verifier/reward.json"
)

// number is a decimal with optional exponent: not "inf", "nan", "0x1p-2" or "1_000".
var number = regexp.MustCompile(`^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$`)

// digitSeparators matches the underscores that Python allows in numbers: single ones, between
// digits.
var digitSeparators = regexp.MustCompile(`(\d)_(\d)`)

// rewardFile is a file of the environment that is read while the logs are copied. It is kept in
// memory, so that neither a full disk nor a redacted value can change a verdict.
type rewardFile struct {
	found bool
	size  int64  // of the file
	text  string // its first environment.MaxTap bytes
}

// errTooLong reports a file whose end was not read. Its beginning alone is no reward.
var errTooLong = fmt.Errorf("is larger than %d KiB", environment.MaxTap>>10)

// whole returns the file's text, or errTooLong.
func (r *rewardFile) whole() (string, error) {
	if r.size > int64(len(r.text)) {
		return "", errTooLong
	}
	return r.text, nil
}

func (r *rewardFile) Write(p []byte) (int, error) {
	r.found, r.text = true, string(p)
	return len(p), nil
}

// rewards holds the files that a verdict is read from.
type rewards struct{ text, json rewardFile }

// verdict is the content of the reward files.
type verdict struct {
	reward float64
	all    map[string]float64 // of reward.json; nil without one
	note   string             // the problem with the file that does not count; "" if there is none
}

// complete reports whether no other file could change the verdict.
func (r *rewards) complete(rules task.Rules) bool {
	if rules.JSONFirst {
		return r.json.found
	}
	return r.text.found
}

// read returns the verdict of a test script that ended with code. It fails with
// verifier_reward_missing or verifier_reward_invalid, whose message may quote the file, without
// what secrets hides.
// Source: specification, "reward.txt"; of reward.json, Harbor 0.22,
// src/harbor/verifier/verifier.py.
func (r *rewards) read(rules task.Rules, code int, secrets *redact.Redactor) (verdict, *failure.Error) {
	switch {
	case r.json.found && (rules.JSONFirst || !r.text.found):
		v, err := r.json.rewards(rules.LenientRewards, secrets)
		if err != nil {
			return verdict{}, failure.Newf(result.VerifierRewardInvalid, "%s/%s %v: write an object with finite numbers there, such as {\"reward\": 1}", environment.LogsDir, rewardJSONPath, err)
		}
		return v, nil
	case r.text.found:
		reward, err := r.text.number(rules.LenientRewards, secrets)
		if err != nil {
			return verdict{}, failure.Newf(result.VerifierRewardInvalid, "%s/%s %v: write one finite number there", environment.LogsDir, rewardPath, err)
		}
		return r.withParts(verdict{reward: reward}, rules, secrets), nil
	}
	return verdict{}, failure.Newf(result.VerifierRewardMissing,
		"the test script ended with %d but left no file %s/%s (nor %s): end tests/test.sh by writing a number there (1 for success, 0 for failure)",
		code, environment.LogsDir, rewardPath, path.Base(rewardJSONPath))
}

// withParts returns a verdict of reward.txt with the rewards of reward.json added.
func (r *rewards) withParts(v verdict, rules task.Rules, secrets *redact.Redactor) verdict {
	if !r.json.found {
		return v
	}
	parts, err := r.json.rewards(rules.LenientRewards, secrets)
	if err != nil {
		v.note = fmt.Sprintf("%s/%s %v, so its rewards are not kept: the reward is that of reward.txt", environment.LogsDir, rewardJSONPath, err)
	}
	v.all = parts.all
	return v
}

// number reads the file as one finite number.
func (r *rewardFile) number(lenient bool, secrets *redact.Redactor) (float64, error) {
	text, err := r.whole()
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
