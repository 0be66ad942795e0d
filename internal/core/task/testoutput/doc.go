// Package testoutput reads the output of tests as terminal-bench's parsers do. The output is
// hostile: an agent may have written any of it.
package testoutput
