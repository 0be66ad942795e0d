// Package commands checks the contract of commands: scripts, streams, exit codes, how commands end,
// terminals, and the ENTRYPOINT that runs before them.
package commands
