// Package markdown reports a job as a page in GitHub's Markdown, for the summary of a workflow's
// step. The verdict comes first, then what changed, the results of agents on datasets, and why
// trials failed. It does not know where the page goes.
package markdown
