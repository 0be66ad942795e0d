// Package oci finds container images, in local files, in a Docker engine's store and in registries, and
// unpacks their layers into directories that overlayfs can stack. It does not know namespaces, mounts or what
// the directories are for.
package oci
