// Package plural writes counts as people read them: "1 trial", "2 trials". It knows no irregular
// nouns.
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
