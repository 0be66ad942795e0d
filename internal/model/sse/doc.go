// Package sse reads server-sent events, the form of streamed answers. It is independent of the
// protocols of models.
package sse
