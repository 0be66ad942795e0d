// Package environment is the contract between trials and the places where they run: a Provider
// creates environments, an Environment runs commands and copies files. Its comments are the
// specification, which environmenttest.Run checks for every provider. It does not know any
// provider.
package environment
