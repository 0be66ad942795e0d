// Package prompt writes what a coding agent needs to look into a trial that did not pass, as one
// bounded text to paste: the instruction, what the tests wanted, the lines that explain the
// failure, the last turns and the agent's files. It reads only a job's directory, whose files are
// redacted. It does not know where the text goes.
package prompt
