// Package jobtest writes the directories of jobs for tests of code that reads them: merging,
// resuming, reusing results.
package jobtest
