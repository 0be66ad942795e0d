// Package sections writes the Markdown that the job summary and the pull request's comment share:
// the verdict, what changed, results, failures. Each section is complete at every level of detail.
// It does not know how much space there is.
package sections
