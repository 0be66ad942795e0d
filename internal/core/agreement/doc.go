// Package agreement reads people's labels, and measures how well a judge agrees with them. It knows
// no directories of jobs.
package agreement
