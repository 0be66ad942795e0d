// Package machine describes what executes the steps of a Dockerfile: it stores images in layers,
// runs commands in boxes, and copies files into them. Package sandbox implements it.
package machine
