// Package apijson reads and writes what requests and answers of several APIs have in common:
// numbers, arguments of tools, parts of messages and the pieces of streams.
package apijson
