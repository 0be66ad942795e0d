package trial

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/redact"
	"github.com/org/rollout-action/internal/result"
)

// rewardPath is where verifiers leave the reward, below /logs and below the trial's logs folder.
const rewardPath = "verifier/reward.txt"

// number is a decimal with optional exponent: not "inf", "nan", "0x1p-2" or "1_000".
var number = regexp.MustCompile(`^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$`)

// rewardFile is the reward file, caught while the logs are copied: in memory, so that neither a full
// disk nor a redacted value can change a verdict.
type rewardFile struct {
	found bool
	text  string
}

func (r *rewardFile) Write(p []byte) (int, error) {
	r.found, r.text = true, string(p)
	return len(p), nil
}

// read is the reward. Fails with verifier_reward_missing or verifier_reward_invalid, whose message may
// quote the file, without what secrets hides. Source: specification, "reward.txt".
func (r *rewardFile) read(secrets *redact.Redactor) (float64, *failure) {
	if !r.found {
		return 0, failf(result.VerifierRewardMissing,
			"the test script ended with 0 but left no file /logs/%s: end tests/test.sh by writing a number there (1 for success, 0 for failure)", rewardPath)
	}
	reward, err := parseReward(r.text, secrets)
	if err != nil {
		return 0, failf(result.VerifierRewardInvalid, "/logs/%s %v: write one finite number there", rewardPath, err)
	}
	return reward, nil
}

// parseReward reads one finite number, with white space around it.
func parseReward(text string, secrets *redact.Redactor) (float64, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, errors.New("is empty")
	}
	if !number.MatchString(text) {
		return 0, fmt.Errorf("holds %s, which is not a number", excerpt(secrets.String(text)))
	}
	reward, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(reward, 0) {
		return 0, fmt.Errorf("holds %s, which is out of range", excerpt(secrets.String(text)))
	}
	return reward, nil
}

// excerpt quotes the beginning of hostile text. It must have been redacted: secrets that are cut are
// not recognised any more.
func excerpt(text string) string {
	if len(text) > 40 {
		return strconv.QuoteToASCII(text[:40]) + "…"
	}
	return strconv.QuoteToASCII(text)
}
