// Package provereport writes the report of rollout validate --run: as JSON, as JUnit XML with a
// case for each task, as annotations of a GitHub workflow, and as Markdown for its summary. Package
// ui prints it on terminals.
package provereport
