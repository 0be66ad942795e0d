// Package git fetches directories of repositories with the git binary, from servers and
// repositories that are not trusted. It never checks anything out: it writes the files itself from
// what git prints, so hooks, filters, attributes, links and odd names of the repository have no
// effect. It does not know tasks.
package git
