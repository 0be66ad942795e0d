// Package environmenttest is the conformance suite of the environment contract: Run checks the
// promises in the comments of package environment, for any provider. It knows no provider.
package environmenttest
