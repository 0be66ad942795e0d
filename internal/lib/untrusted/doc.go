// Package untrusted makes text from outside (environments, datasets, job files) safe to show: on a
// terminal, in a log that GitHub's runner reads, in Markdown and in XML. It does not hide secrets,
// which package redact does.
package untrusted
