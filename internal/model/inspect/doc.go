// Package inspect checks and edits the bodies of requests to models: it refuses JSON that readers
// interpret differently, removes fields that name other models than the request's, and under a
// restricted network removes everything that makes the provider reach the web: tools that it runs,
// and files by URL. It handles the fields of all protocols; differences between them are in Rules.
package inspect
