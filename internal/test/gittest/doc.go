// Package gittest provides repositories and a real git server (git http-backend, on loopback) for
// tests, including hostile and broken ones. It does not depend on the code under test.
package gittest
