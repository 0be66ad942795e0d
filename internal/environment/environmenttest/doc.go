// Package environmenttest is the conformance suite of the environment contract: Run checks what the
// prose of package environment promises, on any provider. It knows no provider.
package environmenttest
