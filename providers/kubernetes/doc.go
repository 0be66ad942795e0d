// Package kubernetes is the provider whose environments are pods of a cluster. It creates, watches
// and deletes them; what happens in a pod's container is package podinit's, and images are package
// registryimage's.
package kubernetes
