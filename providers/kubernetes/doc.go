// Package kubernetes is the provider whose environments are pods of a cluster. It creates, watches
// and deletes them. Package podinit works inside a pod's container, and package registryimage
// handles images.
package kubernetes
