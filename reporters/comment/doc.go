// Package comment reports a job as the body of the one comment on a pull request: what a reviewer
// wants to know first, the rest folded. It does not know how the comment is posted and found again.
package comment
