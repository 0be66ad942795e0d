// Package sections is the Markdown that the job summary and the pull request's comment have in common: the verdict, what
// changed, results, failures. Each section is whole at every detail; it does not know what fits where.
package sections
