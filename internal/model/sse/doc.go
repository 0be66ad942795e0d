// Package sse reads server-sent events, the form of streamed answers. It knows neither protocols of
// models nor HTTP beyond the type of contents.
package sse
