// Package coding undoes the encodings of HTTP contents: gzip, deflate, zstd and br, one or several.
// It does not know what the contents are.
package coding
