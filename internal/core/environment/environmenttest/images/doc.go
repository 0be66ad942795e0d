// Package images checks the contract of images: builds, snapshots, identities and the store.
package images
