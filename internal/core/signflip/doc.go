// Package signflip tests several drops between two jobs together: if nothing changed, the signs of
// a task's drops flip in all tests at once. It knows neither jobs nor limits.
package signflip
