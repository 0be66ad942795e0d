// Package cgroup limits the memory, processor time and number of processes of a sandbox by control
// groups of version 1, version 2, or both together. It does not know sandboxes: it gets a name and
// a process.
//
// All groups are in one top group. Root makes it at the root of the mounted hierarchy, as container
// engines do, so limits of the calling process do not apply to the groups. Other users make it in
// their own group, if that was delegated to them.
//
// The package does not use containerd/cgroups (read at v3.1.3), which leaves the difficult parts to
// its caller: finding the place, the rights in a delegated group, the missing limits and their
// reasons, moving this process, and two processes that make and remove one top group at once. The
// rest is writing a few files. It also writes to the disk itself, so tests on a machine with
// version 1 cannot simulate the kernel's rules for version 2, and its NewManager accepts an
// existing group. Source of the rules: the kernel's Documentation/admin-guide/cgroup-v2.rst and
// cgroup-v1/.
package cgroup
