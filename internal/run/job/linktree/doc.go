// Package linktree puts a directory tree in another place, by moving it, by linking its files or by copying them. The tree is
// hostile: links in it are not followed, and what no run would have written is left out.
package linktree
