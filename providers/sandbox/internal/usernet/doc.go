// Package usernet implements the network outside of one sandbox: a TCP/IP stack at the other end of
// the sandbox's network device. It opens a socket of this process for each connection and each flow
// of datagrams. It knows devices, addresses and packets, but not sandboxes.
package usernet
