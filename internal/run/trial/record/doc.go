// Package record keeps the record of an agent's run: its result, its events, and its files, to
// which it copies streams and logs. All texts in it are redacted.
package record
