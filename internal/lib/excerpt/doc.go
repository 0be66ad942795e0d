// Package excerpt shortens text: it keeps the beginning and the end, or the lines that report a
// failure, and states how many bytes are left out.
package excerpt
