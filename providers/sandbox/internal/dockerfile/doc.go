// Package dockerfile executes a Dockerfile, as BuildKit understands it, on an abstract machine: every step
// that changes files is a layer with a key that says what went into it. It knows neither how layers are
// stored nor how commands are run.
package dockerfile
