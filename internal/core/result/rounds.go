package result

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/org/rollout-action/internal/lib/plural"
)

// Rounds describes a job whose attempts are made in rounds, so that it can end when its verdict is
// clear (gate.stop). A round is one attempt at each task.
type Rounds struct {
	Attempts int `json:"attempts"` // at each task, if the job does not end early
	// Upto is the number of rounds that the shards of a job were told to make; a look at all of
	// them decides about later ones. 0: one process makes the rounds and the looks, or the job has
	// ended.
	Upto int `json:"upto,omitempty"`
	// Baseline is what the looks before these rounds compared with. Later looks and the verdict
	// need the same. nil: there was no look yet, or no baseline.
	Baseline *LookedAt `json:"baseline,omitempty"`
	// Made is the number of rounds after which the job ended; 0: it has not ended.
	Made   int       `json:"made,omitempty"`
	Reason EndReason `json:"reason,omitempty"` // why it ended; "": it has not
	// Why is the reason as a sentence without its full stop. It is hostile, as names are.
	Why string `json:"why,omitempty"`
	// NotNeeded are the planned trials that were left out, sorted. They are neither skipped nor
	// failed: no number of the job has them.
	NotNeeded []Key `json:"not_needed,omitempty"`
}

// LookedAt identifies the baseline of a look. Its texts are hostile.
type LookedAt struct {
	Digest  string  `json:"digest"` // of its results; see ResultsDigest
	JobName string  `json:"job_name"`
	Commit  *string `json:"commit,omitempty"`
	Source  string  `json:"source,omitempty"` // github:BRANCH:RUN; "": it is of no run on GitHub
}

// String describes the baseline: its job, commit and run.
func (l *LookedAt) String() string {
	text := "the results of the job " + l.JobName
	if l.Commit != nil {
		text += " at commit " + (*l.Commit)[:min(len(*l.Commit), 7)]
	}
	if l.Source != "" {
		text += " (" + l.Source + ")"
	}
	return text
}

// ResultsDigest returns a digest ("sha256:…") of a job's name, plan, start and rewards.
func ResultsDigest(j Job) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q\n", j.JobName, j.PlanDigest, j.StartedAt.UTC().Format(time.RFC3339Nano))
	for _, o := range j.Results.All() {
		reward := "none"
		if o.Reward != nil {
			reward = strconv.FormatFloat(*o.Reward, 'g', -1, 64)
		}
		fmt.Fprintf(sum, "%q %s\n", o.Dir(), reward)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// EndReason is the reason for which a job that runs in rounds ended.
type EndReason string

// The reasons. No further attempts could change the verdict (EndMissed: a plain limit can no longer
// be met), or it would hardly do so (EndFutile).
const (
	EndProven  EndReason = "proven"  // a drop is proven
	EndFutile  EndReason = "futile"  // no further attempts could reasonably prove a drop
	EndSettled EndReason = "settled" // no further task can break or be fixed
	EndMissed  EndReason = "missed"  // a plain limit can no longer be met
	EndWhole   EndReason = "whole"   // all attempts were made
)

// Leaves reports whether a trial was left out, or is of a round that nothing has asked for yet.
func (r *Rounds) Leaves(key Key) bool {
	return r != nil && (r.Upto > 0 && key.Attempt > r.Upto || has(r.NotNeeded, key))
}

// Follows reports whether later are the rounds of a shard that was told to make more of them.
func (r *Rounds) Follows(later *Rounds) bool {
	return r != nil && later != nil && r.Upto > 0 && later.Upto > r.Upto
}

// Ended reports whether no more rounds follow.
func (r *Rounds) Ended() bool { return r == nil || r.Reason != "" }

// Sentence says why the job ended early, and what that saved; "" if it did not. ofBaseline is the
// number of trials that its baseline did not need, if it ran in the same rounds; else 0.
func (r *Rounds) Sentence(ofBaseline int) string {
	if r == nil || len(r.NotNeeded) == 0 {
		return ""
	}
	n := len(r.NotNeeded)
	saved := fmt.Sprintf("%s %s not needed.", plural.Count(n, "trial"), plural.Were(n))
	if ofBaseline > 0 {
		saved = fmt.Sprintf("%s of this job and %d of its baseline were not needed.", plural.Count(n, "trial"), ofBaseline)
	}
	if r.Made == r.Attempts {
		return fmt.Sprintf("Made all %s, each only at the tasks that needed it: %s. %s", plural.Count(r.Attempts, "round"), r.Why, saved)
	}
	return fmt.Sprintf("Ended after %d of %s: %s. %s", r.Made, plural.Count(r.Attempts, "round"), r.Why, saved)
}

// EndedEarly says why a job ended early, and what that saved on both sides if base is a baseline
// that ran with it; "" if it did not. base may be nil.
func EndedEarly(base *Job, head Job) string {
	n := 0
	if base != nil && base.Beside.baselineOf(head) && base.Rounds != nil {
		own := make(map[Key]Outcome, head.Results.Len())
		for _, o := range head.Results.All() {
			own[o.Key] = o
		}
		shared := map[string]bool{} // agents whose trials ran once, for both
		for _, o := range base.Results.All() {
			shared[o.Agent] = shared[o.Agent] || o.Reused && o.SameTrial(own[o.Key])
		}
		n = base.Rounds.CountNotNeeded(shared)
	}
	return head.Rounds.Sentence(n)
}

// Fewer says what the rates of a job that ended early are of; "" if it did not.
func (r *Rounds) Fewer() string {
	if r == nil || len(r.NotNeeded) == 0 {
		return ""
	}
	if slices.ContainsFunc(r.NotNeeded, func(k Key) bool { return k.Attempt <= r.Made }) {
		return "ended early (gate.stop), with fewer attempts at tasks that showed early that they neither broke nor were fixed: its rates and their intervals are biased. Compare jobs that made all attempts"
	}
	return fmt.Sprintf("ended early (gate.stop), after %d of %s: its rates are of fewer attempts, and a drop that ended it is a bit too large", r.Made, plural.Count(r.Attempts, "round"))
}

// CountNotNeeded counts the trials that were not needed of all agents but some.
func (r *Rounds) CountNotNeeded(but map[string]bool) (n int) {
	for _, k := range r.NotNeeded {
		if !but[k.Agent] {
			n++
		}
	}
	return n
}

// check returns an error for rounds that no run writes.
func (r *Rounds) check() error {
	if r == nil {
		return nil
	}
	reasons := []EndReason{"", EndProven, EndFutile, EndSettled, EndMissed, EndWhole}
	if r.Attempts < 2 || r.Upto < 0 || r.Upto > r.Attempts || r.Upto > 0 && r.Reason != "" || r.Made < 0 || r.Made > r.Attempts || !slices.Contains(reasons, r.Reason) || (r.Made == 0) != (r.Reason == "") || len(r.NotNeeded) > 0 && r.Reason == "" || !slices.IsSortedFunc(r.NotNeeded, Key.Compare) {
		return errors.New("its rounds contradict each other")
	}
	return nil
}
