// Package judging judges trials that have ended: which judges a trial has, what they see of it, how
// often they try, what they leave on disk, and which scores and reward follow from their verdicts.
// It does not know how an agent runs: an Attempt of a judge is run by its caller.
package judging
