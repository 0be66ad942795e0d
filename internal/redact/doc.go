// Package redact replaces secrets in text, however they are written. It does not know where secrets
// come from or where text goes.
package redact
