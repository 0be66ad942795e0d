// Package viewer shows jobs in a browser, through a read-only server for this machine alone or as
// files. A Library provides the jobs and their content; internal/output/page renders the pages.
package viewer
