// Package markdown reports a job as one page of GitHub's Markdown: the summary of a workflow's step. The verdict comes
// first, then what changed, where agents stand on datasets, and why things failed. It does not know where the page goes.
package markdown
