// Package processes ends the processes that an agent has started in an environment, including those
// that its commands have left behind.
package processes
