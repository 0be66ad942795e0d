// Package sources reads the files that COPY and ADD name, in the directory of the Dockerfile and in
// images: it resolves links and wildcards, and unpacks archives. It writes no files.
package sources
