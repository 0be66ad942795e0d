// Package annotations reports a job as workflow commands that GitHub's runner shows at a pull
// request's files: what broke, what failed and what got better, at the task's own files. It does
// not know which file a change touched.
package annotations
