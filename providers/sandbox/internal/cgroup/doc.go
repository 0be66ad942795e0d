// Package cgroup limits the memory, processor time and number of processes of whatever runs in a
// sandbox, by control groups of version 1, version 2, or both side by side. It does not know what a
// sandbox is: it is given a name and a process.
//
// All groups stand in one top group. Root makes it at the top of what is mounted, as container engines
// do, so limits set on the calling process do not hold for the groups. Another user makes it in their
// own group, if that was delegated to them.
//
// The code is our own, although containerd/cgroups does the same, because what matters is the choice of
// the place: what a delegated group grants, what is missing and why, and two processes making one top
// group at once. That library takes the place as given and goes to /sys/fs/cgroup itself, so none of it
// could be tested for version 2 on a machine with version 1. Source of all the rules:
// the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
package cgroup
