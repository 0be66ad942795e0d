// Package meter counts the usage of model calls and enforces budgets. It is independent of
// protocols, prices and connections.
package meter
