// Package samefiles copies the files of a checkout that equal a commit's, byte for byte, and
// refuses all others. It learns the commit's content from its caller, and trusts nothing in the
// checkout.
package samefiles
