// Package untrustedtest provides texts that attack the programs that show them, and checks that
// reports are unharmed. It is for tests, and does not depend on the report that it checks.
package untrustedtest
