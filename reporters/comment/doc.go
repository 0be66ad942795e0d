// Package comment reports a job as the body of the one comment on a pull request: what a reviewer wants to know, with the
// rest folded away. The hidden marker by which the comment is found again, and posting it, are delivery's.
package comment
