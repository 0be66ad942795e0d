// Package arch keeps the direction of imports. It is only tests: they compare the map in
// .github/ARCHITECTURE.md with what the packages really import.
package arch
