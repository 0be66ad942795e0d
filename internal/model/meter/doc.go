// Package meter counts what calls of models use, and keeps the budgets of it. It knows no
// protocols, prices or connections.
package meter
