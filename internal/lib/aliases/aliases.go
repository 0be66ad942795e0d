// Package aliases writes out the aliases of a YAML document. It knows no keys.
package aliases

import "go.yaml.in/yaml/v3"

// Inline replaces the aliases below a node by the nodes that they stand for, which are shared then.
// It returns nil, or the first node that is nested more than depth deep (then deep is true), or
// with which there are more than most nodes, those of each alias counted: a few lines of aliases of
// aliases are billions. The document may contain itself then, and must not be read.
func Inline(n *yaml.Node, depth, most int) (bad *yaml.Node, deep bool) {
	return inline(n, depth, &most)
}

// inline writes out the nodes below n. left is how many more there may be.
func inline(n *yaml.Node, depth int, left *int) (bad *yaml.Node, deep bool) {
	for i, child := range n.Content {
		if child.Kind == yaml.AliasNode {
			child = child.Alias
			n.Content[i] = child
		}
		if *left--; *left < 0 || depth == 0 {
			return child, depth == 0
		}
		if bad, deep = inline(child, depth-1, left); bad != nil {
			return bad, deep
		}
	}
	return nil, false
}
