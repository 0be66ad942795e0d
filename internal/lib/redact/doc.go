// Package redact replaces secrets in text, however they are encoded. It does not know where secrets
// come from or where the text goes.
package redact
