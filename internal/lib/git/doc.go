// Package git fetches directories of repositories with the git binary, from servers and
// repositories that are not trusted. It never checks anything out: it writes the files itself from
// git's output, so hooks, filters, attributes, links and odd names of the repository have no
// effect.
package git
