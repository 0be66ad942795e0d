// Package rtnl makes the few rtnetlink requests about devices, addresses and routes that sandboxes
// need. It knows nothing of sandboxes. It is small because process 1 contains it.
package rtnl
