// Package model has the words for what passes between an agent and its model, in a form that is the
// same for all APIs: messages, answers, turns and their failures, and the records of turns. It also
// has the facts that each API states. Package api has the table of the APIs, package gateway the
// server between agents and models.
package model
