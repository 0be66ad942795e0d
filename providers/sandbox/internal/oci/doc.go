// Package oci finds container images, in local files, in a Docker engine's store and in registries,
// and unpacks their layers into directories that overlayfs can stack. It knows nothing of
// namespaces, mounts or the use of the directories.
package oci
