// Package untrustedtest holds texts that attack whoever shows them, and checks that reports came through unharmed. It is
// for tests, and does not know which report it looks at.
package untrustedtest
