// Package environmenttest is the conformance suite of the environment contract: Run checks the
// promises in the comments of package environment, for any provider. The checks are in its
// chapters, the packages below it. It knows no provider.
package environmenttest
