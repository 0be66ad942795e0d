// Package inspect judges the bodies of requests to models, and changes them: it refuses JSON that
// readers read differently, removes fields that name other models than the request's, and under a
// restricted network what makes the provider reach the web: tools that it runs, and files by URL.
// It knows the fields of all protocols; what is particular to one is in Rules.
package inspect
