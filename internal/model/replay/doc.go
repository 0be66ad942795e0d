// Package replay records the exchanges with a model, and answers from such records. It knows no
// jobs and no trials but their names.
package replay
