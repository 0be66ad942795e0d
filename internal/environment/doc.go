// Package environment is the contract between trials and the places they run in: a Provider makes
// environments, an Environment runs commands and moves files. Its prose is the specification;
// environmenttest.Run checks it on every provider. It does not know any provider.
package environment
