// Package proof reports what the proof of a dataset has shown: as JSON, as JUnit XML with a case for each task, as
// annotations of a GitHub workflow, and as Markdown for its summary. Terminals are package ui's.
package proof
