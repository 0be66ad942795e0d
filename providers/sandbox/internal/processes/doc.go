// Package processes finds and kills everything that a command started in a pid namespace, from within the
// namespace's first process. It knows nothing of sandboxes, of how commands are started, nor who waits for them.
package processes
