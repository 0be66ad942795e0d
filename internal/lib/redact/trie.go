package redact

// trie finds all its patterns in one pass over a text (Aho and Corasick, 1975). A node stands for
// the text on the path from the root, which is a prefix of a pattern.
type trie struct {
	nodes []node
	first [256]int32      // the root's children, by byte; 0 is the root itself: none
	depth int             // length of the longest pattern
	pairs [1 << 10]uint64 // the first two bytes of the patterns, as bits
}

type node struct {
	child   int32 // first of a list linked by sibling; 0: none
	sibling int32
	fail    int32 // the longest proper suffix of this node's text that is a node
	depth   int32 // length of this node's text
	longest int32 // length of the longest pattern that this node's text ends with; 0: none
	symbol  byte  // last of this node's text
}

const root = 0

func newTrie() *trie { return &trie{nodes: make([]node, 1)} }

func (t *trie) empty() bool { return len(t.nodes) == 1 }

// add adds a pattern. It must not be called after link.
func (t *trie) add(pattern string) {
	at := int32(root)
	for i := range len(pattern) {
		next := t.child(at, pattern[i])
		if next == root {
			next = int32(len(t.nodes))
			t.nodes = append(t.nodes, node{symbol: pattern[i], depth: int32(i + 1)})
			if at == root {
				t.first[pattern[i]] = next
			} else {
				t.nodes[next].sibling = t.nodes[at].child
				t.nodes[at].child = next
			}
		}
		at = next
	}
	t.nodes[at].longest = int32(len(pattern))
	t.depth = max(t.depth, len(pattern))
}

// child returns the child for symbol, or root if there is none.
func (t *trie) child(at int32, symbol byte) int32 {
	if at == root {
		return t.first[symbol]
	}
	for c := t.nodes[at].child; c != root; c = t.nodes[c].sibling {
		if t.nodes[c].symbol == symbol {
			return c
		}
	}
	return root
}

// link sets fail, and longest where it comes from a suffix. It works breadth first, so shorter
// texts come before longer ones.
func (t *trie) link() {
	var queue []int32
	for first, c := range t.first {
		if c == root {
			continue
		}
		queue = append(queue, c)
		for d := t.nodes[c].child; d != root; d = t.nodes[d].sibling {
			pair := first<<8 | int(t.nodes[d].symbol)
			t.pairs[pair>>6] |= 1 << (pair & 63)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for c := t.nodes[at].child; c != root; c = t.nodes[c].sibling {
			fail := t.step(t.nodes[at].fail, t.nodes[c].symbol)
			t.nodes[c].fail = fail
			t.nodes[c].longest = max(t.nodes[c].longest, t.nodes[fail].longest)
			queue = append(queue, c)
		}
	}
}

// begins reports whether a pattern begins with two bytes. It may be called after link; patterns are
// longer.
func (t *trie) begins(first, second byte) bool {
	pair := int(first)<<8 | int(second)
	return t.pairs[pair>>6]&(1<<(pair&63)) != 0
}

// step returns the node for the longest suffix of at's text followed by symbol.
func (t *trie) step(at int32, symbol byte) int32 {
	for {
		if next := t.child(at, symbol); next != root || at == root {
			return next
		}
		at = t.nodes[at].fail
	}
}
