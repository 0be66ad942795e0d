// Package processes finds and kills everything that a command started in a pid namespace: from
// within the namespace's first process (Kill), or from outside of the namespace (Container). It
// knows nothing of sandboxes and engines, of how commands are started, nor who waits for them.
package processes
