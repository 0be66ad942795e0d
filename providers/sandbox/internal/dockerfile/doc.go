// Package dockerfile executes a Dockerfile, with the semantics of BuildKit, on an abstract machine.
// Each step that changes files makes a layer, whose key covers all inputs of the layer. The package
// does not know how layers are stored or commands are run.
package dockerfile
