package trial

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/result"
)

// rewardPath is where verifiers leave the reward, below /logs and below the trial's logs folder.
const rewardPath = "verifier/reward.txt"

// maxReward is far beyond any number a person or program writes.
const maxReward = 4096

// number is a decimal with optional exponent: not "inf", "nan", "0x1p-2" or "1_000".
var number = regexp.MustCompile(`^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$`)

// readReward reads the reward below the trial's logs folder. Fails with verifier_reward_missing or
// verifier_reward_invalid. Source: specification, "reward.txt".
func readReward(logs string) (float64, *failure) {
	data, err := readHead(filepath.Join(logs, filepath.FromSlash(rewardPath)), maxReward)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, failf(result.VerifierRewardMissing,
			"the test script ended with 0 but wrote no /logs/%s: end tests/test.sh by writing a number there (1 for success, 0 for failure)", rewardPath)
	case err != nil:
		return 0, failf(result.VerifierRewardInvalid, "/logs/%s cannot be read: %v", rewardPath, err)
	}
	reward, err := parseReward(string(data))
	if err != nil {
		return 0, failf(result.VerifierRewardInvalid, "/logs/%s %v: write one finite number there", rewardPath, err)
	}
	return reward, nil
}

func readHead(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit+1))
}

// parseReward reads one finite number, with white space around it.
func parseReward(text string) (float64, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, errors.New("is empty")
	}
	if !number.MatchString(text) {
		return 0, fmt.Errorf("holds %s, which is not a number", excerpt(text))
	}
	reward, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(reward, 0) {
		return 0, fmt.Errorf("holds %s, which is out of range", excerpt(text))
	}
	return reward, nil
}

// excerpt quotes the beginning of hostile text.
func excerpt(text string) string {
	if len(text) > 40 {
		return strconv.QuoteToASCII(text[:40]) + "…"
	}
	return strconv.QuoteToASCII(text)
}
