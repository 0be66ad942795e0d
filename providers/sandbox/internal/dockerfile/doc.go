// Package dockerfile executes a Dockerfile, as BuildKit understands it, on an abstract machine: every step
// that changes files is a layer, whose key covers all that the layer depends on. It knows neither how
// layers are stored nor how commands are run.
package dockerfile
