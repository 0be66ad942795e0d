// Package flytest is a service that speaks the Machines API of Fly.io, for tests: it runs the
// commands of machines in environments of another provider. It refuses fields and parameters that
// it does not heed, and fails as the service does when it is told to.
package flytest
