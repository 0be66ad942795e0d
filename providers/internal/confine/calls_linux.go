package confine

import "golang.org/x/sys/unix"

// abi is a set of numbers by which programs name system calls.
type abi int

const (
	amd64 abi = iota
	i386
	arm64
	arm
	abis = 4
)

// numbers are a call's numbers, by ABI; none where there is no such call.
// Source: arch/*/entry/syscalls in Linux, as golang.org/x/sys/unix has them.
type numbers [abis]int32

const none = -1

// call is a system call with the error that it returns.
type call struct {
	name   string
	errno  unix.Errno
	number numbers
}

// refused always fail. It is what Docker's default profile refuses to a container without added
// capabilities, where it matters. Most need capabilities that are dropped as well; but a process
// can get all capabilities in a user namespace, should there be a way to make one. Tracing stays
// possible.
var refused = []call{
	// New namespaces bring new rights. The flags of clone3 are in memory, where no filter sees
	// them; C libraries use clone when there is no clone3.
	{"clone3", unix.ENOSYS, numbers{435, 435, 435, 435}},
	{"unshare", unix.EPERM, numbers{272, 310, 97, 337}},
	{"setns", unix.EPERM, numbers{308, 346, 268, 375}},

	// Keys have no namespaces.
	{"add_key", unix.EPERM, numbers{248, 286, 217, 309}},
	{"keyctl", unix.EPERM, numbers{250, 288, 219, 311}},
	{"request_key", unix.EPERM, numbers{249, 287, 218, 310}},

	// Mounts would undo what the sandbox hides.
	{"mount", unix.EPERM, numbers{165, 21, 40, 21}},
	{"umount", unix.EPERM, numbers{none, 22, none, none}},
	{"umount2", unix.EPERM, numbers{166, 52, 39, 52}},
	{"pivot_root", unix.EPERM, numbers{155, 217, 41, 218}},
	{"move_mount", unix.EPERM, numbers{429, 429, 429, 429}},
	{"open_tree", unix.EPERM, numbers{428, 428, 428, 428}},
	{"open_tree_attr", unix.EPERM, numbers{467, 467, 467, 467}},
	{"fsopen", unix.EPERM, numbers{430, 430, 430, 430}},
	{"fsmount", unix.EPERM, numbers{432, 432, 432, 432}},
	{"fsconfig", unix.EPERM, numbers{431, 431, 431, 431}},
	{"fspick", unix.EPERM, numbers{433, 433, 433, 433}},
	{"mount_setattr", unix.EPERM, numbers{442, 442, 442, 442}},
	{"open_by_handle_at", unix.EPERM, numbers{304, 342, 265, 371}},

	// Large parts of the kernel in which flaws were found again and again. Libraries do without.
	{"bpf", unix.EPERM, numbers{321, 357, 280, 386}},
	{"perf_event_open", unix.EPERM, numbers{298, 336, 241, 364}},
	{"userfaultfd", unix.EPERM, numbers{323, 374, 282, 388}},
	{"io_uring_setup", unix.EPERM, numbers{425, 425, 425, 425}},
	{"io_uring_enter", unix.EPERM, numbers{426, 426, 426, 426}},
	{"io_uring_register", unix.EPERM, numbers{427, 427, 427, 427}},

	// The machine, its clock and its log are shared.
	{"kexec_load", unix.EPERM, numbers{246, 283, 104, 347}},
	{"kexec_file_load", unix.EPERM, numbers{320, none, 294, 401}},
	{"create_module", unix.EPERM, numbers{174, 127, none, none}},
	{"init_module", unix.EPERM, numbers{175, 128, 105, 128}},
	{"finit_module", unix.EPERM, numbers{313, 350, 273, 379}},
	{"delete_module", unix.EPERM, numbers{176, 129, 106, 129}},
	{"reboot", unix.EPERM, numbers{169, 88, 142, 88}},
	{"syslog", unix.EPERM, numbers{103, 103, 116, 103}},
	{"acct", unix.EPERM, numbers{163, 51, 89, 51}},
	{"swapon", unix.EPERM, numbers{167, 87, 224, 87}},
	{"swapoff", unix.EPERM, numbers{168, 115, 225, 115}},
	{"quotactl", unix.EPERM, numbers{179, 131, 60, 131}},
	{"quotactl_fd", unix.EPERM, numbers{443, 443, 443, 443}},
	{"iopl", unix.EPERM, numbers{172, 110, none, none}},
	{"ioperm", unix.EPERM, numbers{173, 101, none, none}},
	{"vm86", unix.EPERM, numbers{none, 166, none, none}},
	{"vm86old", unix.EPERM, numbers{none, 113, none, none}},
	{"settimeofday", unix.EPERM, numbers{164, 79, 170, 79}},
	{"stime", unix.EPERM, numbers{none, 25, none, none}},
	{"clock_settime", unix.EPERM, numbers{227, 264, 112, 262}},
	{"clock_settime64", unix.EPERM, numbers{none, 404, none, 404}},
	{"adjtimex", unix.EPERM, numbers{159, 124, 171, 124}},
	{"clock_adjtime", unix.EPERM, numbers{305, 343, 266, 372}},
	{"clock_adjtime64", unix.EPERM, numbers{none, 405, none, 405}},
}

// withNamespaces fail only if they are to make namespaces: processes and threads are made by them,
// too.
var withNamespaces = []call{
	{"clone", unix.EPERM, numbers{56, 120, 220, 120}},
}

// withLimits fail only if they are to change the limits of a process by its id. Who has the same
// user may, whatever else it has less: process 1 could be left without files, or with a second to
// live.
var withLimits = []call{
	{"prlimit64", unix.EPERM, numbers{302, 340, 261, 369}},
}

// families are the kinds of sockets that cannot be made. Source: <linux/socket.h>. Docker refuses
// the same.
var families = []uint32{
	unix.AF_VSOCK, // reaches the machine's hypervisor and its neighbours from any network namespace
	unix.AF_ALG,   // a large part of the kernel in which flaws were found: CVE-2026-31431 changed files through it
}

// withFamilies fail only for families.
var withFamilies = []call{
	{"socket", unix.EAFNOSUPPORT, numbers{41, 359, 198, 281}},
}

// withSockets fail only if they are to make a socket: its family is in memory, where no filter sees
// it. C libraries have used socket since Linux 4.3.
var withSockets = []call{
	{"socketcall", unix.ENOSYS, numbers{none, 102, none, none}},
}

// faked succeed and do nothing, where only one id is mapped. Package managers and archivers set
// owners that there are none of, and programs that change their user empty their groups first.
//
// Nothing else is faked. After a setuid that only seemed to work, a command would run with rights
// that it was to lose. A mknod that made no file would only move the failure to the chmod after it.
// The idea is from Charliecloud, which goes further:
// https://hpc.github.io/charliecloud/ch-image.html.
var faked = []call{
	{"chown", 0, numbers{92, 182, none, 182}},
	{"fchown", 0, numbers{93, 95, 55, 95}},
	{"lchown", 0, numbers{94, 16, none, 16}},
	{"fchownat", 0, numbers{260, 298, 54, 325}},
	{"chown32", 0, numbers{none, 212, none, 212}},
	{"fchown32", 0, numbers{none, 207, none, 207}},
	{"lchown32", 0, numbers{none, 198, none, 198}},
	{"setgroups", 0, numbers{116, 81, 159, 81}},
	{"setgroups32", 0, numbers{none, 206, none, 206}},
}
