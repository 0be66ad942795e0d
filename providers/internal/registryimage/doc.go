// Package registryimage makes images in a container registry, for providers whose machines pull
// from one: it builds Dockerfiles with one of several builders, adds layers to images that are in a
// registry, and reads images' configurations. It does not know what runs the images.
package registryimage
