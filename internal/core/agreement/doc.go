// Package agreement measures how well a judge agrees with people's labels, and reads these labels.
// It knows no directories of jobs.
package agreement
