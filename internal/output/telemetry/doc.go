// Package telemetry sends the stored results of a job as OpenTelemetry spans: for each trial, its
// phases, and each call of its model, by the semantic conventions for generative AI. It reads a
// job's directory and knows nothing of how trials are run.
package telemetry
