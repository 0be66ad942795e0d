// Package mailbox carries a connection by exchanges of letters. It is for systems that run a short
// command in a container, give it an input at once, and return its output at once. The package
// knows neither what the bytes mean nor how letters travel.
package mailbox
