// Package model is the gateway between an agent and its model: an HTTP server that a trial's agent
// calls as it would call the provider of the model, with a token of this trial. The gateway adds
// the real key, which stays on the host, passes requests and answers on byte for byte, counts
// tokens, records each turn, and refuses requests once a budget is used up.
//
// It deals with HTTP and the protocols of models only. The maker of a Session gives it a listener
// that the agent can reach and a function that stores turns.
//
// Sources of how clients behave: tests of the newest CLI agents against a scripted server, named in
// the tests of each point.
package model
