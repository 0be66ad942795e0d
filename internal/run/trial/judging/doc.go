// Package judging judges trials that have ended: it selects the judges of a trial, prepares their
// evidence, limits their attempts, stores their records on disk, and computes scores and reward
// from their verdicts. The caller runs each Attempt of a judge.
package judging
