// Package buildkit builds Dockerfiles with BuildKit, and reads what builders of the Docker engine
// say. It does not know where a builder is or what becomes of the image.
package buildkit
