// Package machine describes what executes the steps of a Dockerfile: it stores images in layers,
// runs commands in root file systems, and copies files into them. Package sandbox implements it.
package machine
