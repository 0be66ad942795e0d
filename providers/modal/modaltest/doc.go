// Package modaltest is a service that speaks Modal's protocol, for tests: it runs the commands of
// sandboxes in environments of another provider. It refuses fields that it does not heed, and fails
// as the service does when it is told to.
package modaltest
