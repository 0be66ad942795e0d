// Package plural formats counts with their nouns: "1 trial", "2 trials". It does not support
// irregular nouns.
package plural

import "strconv"

// Count returns a number and the noun in its singular or plural: Count(1, "trial") is "1 trial",
// Count(2, "trial") is "2 trials". The plural adds an s.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// Are returns the verb for n things: "is" or "are".
func Are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// Have returns the verb for n things: "has" or "have".
func Have(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

// Were returns the verb for n things: "was" or "were".
func Were(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}
