// Package resume resumes a job that was run before: it reads the job's directory, finds the changes
// since and the pending trials, and prepares the directory for them. The caller runs them.
package resume
