// Package cgroup limits the memory, processor time and number of processes of whatever runs in a
// sandbox, by control groups of version 1, version 2, or both side by side. It does not know what a
// sandbox is: it is given a name and a process.
//
// All groups stand in one top group. Root makes it at the top of what is mounted, as container engines
// do, so limits set on the calling process do not hold for the groups. Another user makes it in their
// own group, if that was delegated to them.
//
// The code is our own, although containerd/cgroups (read at v3.1.3) makes groups as well. What matters
// here is what it leaves to its caller: finding the place, what a delegated group grants, what is missing
// and why, moving out of the way, and two processes that make and remove one top group at once. The rest is
// a few files to write. It also writes to the disk itself, so a test cannot put the kernel's rules for
// version 2 in between on a machine that has version 1, and its NewManager takes a group that exists
// already. Source of the rules: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
package cgroup
