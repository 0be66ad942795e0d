// Package jobtest leaves the directories of jobs for tests of what reads them: merging, resuming, taking results over.
package jobtest
