// Package kubernetestest runs a real control plane of Kubernetes with fake nodes, for tests and
// measurements with many pods.
package kubernetestest
