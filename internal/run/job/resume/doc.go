// Package resume resumes a job that was run before: it reads the job's directory, finds what has changed since and which
// trials are pending, and makes the directory ready for them. It does not run them.
package resume
