// Package rtnl asks the kernel for devices, addresses and routes over rtnetlink: the few requests that sandboxes take. It
// knows nothing of sandboxes. It is small because process 1 has it in it.
package rtnl
