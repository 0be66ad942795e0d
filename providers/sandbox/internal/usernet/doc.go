// Package usernet is the network outside of one sandbox: a TCP/IP stack at the other end of the sandbox's network device, which
// makes a socket of this process of each connection and each flow of datagrams. It knows devices, addresses and packets, and
// nothing of sandboxes besides.
package usernet
