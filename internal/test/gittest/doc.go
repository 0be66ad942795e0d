// Package gittest provides repositories and a real git server (git http-backend, on loopback) for tests, also hostile and
// broken ones. It does not know what is tested with them.
package gittest
