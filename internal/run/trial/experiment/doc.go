// Package experiment tells by digests whether two trials belong to the same experiment: the same
// agents, models, judges and settings. Result files have the digests, so no secret is in them.
package experiment
