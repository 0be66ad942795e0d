package confine

import (
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// machine lists the ABIs in which programs can speak to one kernel, its own first.
type machine []abi

// machines are the kernels that there are numbers for, by runtime.GOARCH. All are little-endian.
var supported = map[string]machine{
	"amd64": {amd64, i386},
	"arm64": {arm64, arm},
}

// audit is the kernel's number of an ABI in the input of a filter.
var audit = [abis]uint32{
	amd64: unix.AUDIT_ARCH_X86_64,
	i386:  unix.AUDIT_ARCH_I386,
	arm64: unix.AUDIT_ARCH_AARCH64,
	arm:   unix.AUDIT_ARCH_ARM,
}

const (
	// Offsets of a filter's inputs. Source: struct seccomp_data, <linux/seccomp.h>.
	numberAt   = 0
	abiAt      = 4
	firstArgAt = 16 // the lower half; the others follow, 8 bytes each
	thirdArgAt = 32

	// x32 is set in the numbers of a third ABI of amd64, which has the same name as amd64's own.
	x32 = 0x40000000
	// skipped is the number of a call that a debugger took back; it is no x32 call.
	skipped = 0xffffffff

	// sysSocket is what socketcall makes a socket by. Source: <linux/net.h>.
	sysSocket = 1

	// newNamespaces are the flags of clone that make namespaces. A time namespace cannot be asked
	// for by clone: its bit is part of a signal's number there.
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
)

// program returns the filter for a kernel. It lists refused calls, so new calls of later kernels
// work as they do outside. Other calls are not slower: since Linux 5.11 the kernel computes which
// calls are always permitted.
func program(m machine, fakeOwners bool) []bpf.Instruction {
	out := []bpf.Instruction{bpf.LoadAbsolute{Off: abiAt, Size: 4}}
	for _, a := range m {
		rules := rulesFor(a, fakeOwners)
		out = append(out,
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: audit[a], SkipTrue: 1},
			bpf.Jump{Skip: uint32(len(rules))})
		out = append(out, rules...)
	}
	return append(out, fail(unix.ENOSYS)) // an ABI without rules
}

// rulesFor returns the rules for calls in the ABI. They always return.
func rulesFor(a abi, fakeOwners bool) []bpf.Instruction {
	out := []bpf.Instruction{bpf.LoadAbsolute{Off: numberAt, Size: 4}}
	if a == amd64 {
		out = append(out,
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: skipped, SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: x32, SkipFalse: 1},
			fail(unix.ENOSYS))
	}
	for _, c := range refused {
		out = append(out, whenCall(c, a, fail(c.errno))...)
	}
	for _, c := range withNamespaces {
		out = append(out, whenCall(c, a,
			bpf.LoadAbsolute{Off: firstArgAt, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: newNamespaces, SkipFalse: 1},
			fail(c.errno),
			allow)...)
	}
	for _, c := range withLimits {
		out = append(out, whenCall(c, a,
			bpf.LoadAbsolute{Off: firstArgAt, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 5}, // its own
			bpf.LoadAbsolute{Off: thirdArgAt, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 2},
			bpf.LoadAbsolute{Off: thirdArgAt + 4, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, // only asks
			fail(c.errno),
			allow)...)
	}
	for _, c := range withFamilies {
		then := []bpf.Instruction{bpf.LoadAbsolute{Off: firstArgAt, Size: 4}}
		for _, family := range families {
			then = append(then, bpf.JumpIf{Cond: bpf.JumpEqual, Val: family, SkipFalse: 1}, fail(c.errno))
		}
		out = append(out, whenCall(c, a, append(then, allow)...)...)
	}
	for _, c := range withSockets {
		out = append(out, whenCall(c, a,
			bpf.LoadAbsolute{Off: firstArgAt, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: sysSocket, SkipFalse: 1},
			fail(c.errno),
			allow)...)
	}
	if fakeOwners {
		for _, c := range faked {
			out = append(out, whenCall(c, a, fail(c.errno))...)
		}
	}
	return append(out, allow)
}

// whenCall returns instructions that run then for a call, if it exists in the ABI. then must
// return.
func whenCall(c call, a abi, then ...bpf.Instruction) []bpf.Instruction {
	if c.number[a] == none {
		return nil
	}
	test := bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(c.number[a]), SkipFalse: uint8(len(then))}
	return slices.Concat([]bpf.Instruction{test}, then)
}

var allow = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}

// fail returns the instruction that ends a call with an error, or with success if errno is 0.
func fail(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}
