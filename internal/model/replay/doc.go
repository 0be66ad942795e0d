// Package replay records the exchanges with a model, and answers from such records. Of jobs and
// trials it uses only the names.
package replay
