// Package agentfiles reads the files that agents bring into their environments: the key files of an agent. It knows how they are
// found, bounded and identified, and neither jobs nor providers.
package agentfiles
