// Package samefiles copies the files of a checkout that equal a commit's, byte for byte, and
// refuses all others. The caller provides the commit's content. Nothing in the checkout is trusted.
package samefiles
