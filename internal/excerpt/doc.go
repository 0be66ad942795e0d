// Package excerpt shortens text: it keeps the beginning and the end, and says how many bytes are left out between them. It knows
// nothing of where the text comes from.
package excerpt
