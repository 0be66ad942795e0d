// Package judge has what a judge is: its specification, what it is asked, and how its answer
// becomes a score. It runs nothing: package trial runs judges as it runs agents.
package judge
