// Package redact replaces secrets in text, also when they are encoded or escaped.
package redact
