// Package vet copies files of a checkout that are, byte for byte, what a commit has, and refuses all others. It knows the
// commit by what is passed in, and believes nothing that the checkout says of itself.
package vet
