package reward

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// Bounds of reward.json, which an agent may have written.
const (
	maxRewards    = 100
	maxRewardName = 200 // bytes
)

// Main is the name in reward.json of the reward that counts.
const Main = "reward"

// Of returns the one of named rewards that counts: the one with the name Main, or else the mean of
// all, of which there is at least one.
func Of(all map[string]float64) float64 {
	if main, ok := all[Main]; ok {
		return main
	}
	mean := 0.0
	for i, name := range slices.Sorted(maps.Keys(all)) {
		n := float64(i + 1)
		mean += all[name]/n - mean/n // a sum, or the difference of the two, could overflow
	}
	return mean
}

// rewards reads the file as an object of rewards.
func (r *File) rewards(lenient bool, secrets *redact.Redactor) (Verdict, error) {
	text, err := r.Whole()
	if err != nil {
		return Verdict{}, err
	}
	return parseRewards(text, lenient, secrets)
}

// parseRewards reads an object of names and finite numbers. The reward that counts is the one named
// reward, or else the only one, or else the mean of all. lenient takes true, false and numbers in
// quotes, too, as pydantic does.
func parseRewards(text string, lenient bool, secrets *redact.Redactor) (Verdict, error) {
	var values map[string]jsontext.Value
	if err := bounded.UnmarshalStrict([]byte(text), &values); err != nil || values == nil {
		return Verdict{}, fmt.Errorf("holds %s, which is no JSON object of numbers with different names", quoted(secrets.String(text)))
	}
	if len(values) == 0 || len(values) > maxRewards {
		return Verdict{}, fmt.Errorf("holds %d rewards, and not between 1 and %d", len(values), maxRewards)
	}
	v := Verdict{All: make(map[string]float64, len(values))}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		shown := failure.Hide(secrets, name)
		if shown == "" || len(name) > maxRewardName {
			return Verdict{}, fmt.Errorf("has a reward whose name is empty or longer than %d bytes", maxRewardName)
		}
		reward, err := rewardValue(values[name], lenient, secrets)
		if err != nil {
			return Verdict{}, fmt.Errorf("has for %s %w", quoted(shown), err)
		}
		v.All[shown] = reward
	}
	v.Reward = Of(v.All)
	return v, nil
}

// rewardValue reads one value.
func rewardValue(value jsontext.Value, lenient bool, secrets *redact.Redactor) (float64, error) {
	text := string(value)
	switch kind := value.Kind(); {
	case kind == '0':
	case lenient && kind == 't':
		return 1, nil
	case lenient && kind == 'f':
		return 0, nil
	case lenient && kind == '"':
		if err := json.Unmarshal(value, &text); err != nil {
			return 0, errors.New("a text that cannot be read")
		}
	default:
		return 0, fmt.Errorf("%s, which is not a number", quoted(secrets.String(text)))
	}
	reward, err := parseReward(text, lenient, secrets)
	if err != nil {
		return 0, fmt.Errorf("a value that %w", err)
	}
	return reward, nil
}
