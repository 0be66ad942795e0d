// Package gateway is the server between an agent and its model: a trial's agent calls it over HTTP
// as it would call the provider of the model, with a token of this trial. The gateway adds the real
// key, which stays on the host, passes requests and answers on byte for byte, counts tokens,
// records each turn, and refuses requests once a budget is used up.
//
// It knows no API in particular. The maker of a Session gives it a listener that the agent can
// reach and a function that stores turns.
//
// Sources of how clients behave: tests of the newest CLI agents against a scripted server, named in
// the comments of the tests.
package gateway
