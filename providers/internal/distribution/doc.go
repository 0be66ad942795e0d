// Package distribution speaks to container registries: with the user's logins, with retries, and
// with errors that say what a registry means. It does not know what images are for.
package distribution
