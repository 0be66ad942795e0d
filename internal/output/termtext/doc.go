// Package termtext formats text for a terminal: colours, lines that are cut or wrapped to a width,
// and numbers and durations. It does not know whether there is a terminal.
package termtext
