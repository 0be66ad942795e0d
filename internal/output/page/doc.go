// Package page makes HTML pages from a job's stored results: typed views, which plain functions
// compute, and the templates that show them. A page needs no other file and no server, and can be
// read without JavaScript. The package does not know where a page goes.
package page
