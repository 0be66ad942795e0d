// Package coding undoes the encodings of HTTP contents: gzip, deflate, zstd and br, one or several.
package coding
