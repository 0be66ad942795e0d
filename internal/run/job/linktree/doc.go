// Package linktree puts a directory tree in another place, by moving it, by linking its files or by
// copying them. The tree is hostile: links in it are not followed, and names that no run writes are
// left out.
package linktree
