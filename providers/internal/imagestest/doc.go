// Package imagestest has the images of the stand-ins in which tests run environments.
package imagestest
