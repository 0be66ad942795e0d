// Package excerpt shortens text: it keeps the beginning and the end, or the lines that tell of a
// failure, and says how many bytes are left out. It knows nothing of where the text comes from.
package excerpt
