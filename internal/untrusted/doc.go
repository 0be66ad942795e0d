// Package untrusted makes text from outside (environments, datasets, job files) safe to show: on a terminal, in a log
// that GitHub's runner reads, in Markdown and in XML. It does not know about secrets, which package redact hides, nor
// where the text goes.
package untrusted
