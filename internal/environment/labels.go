package environment

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Labels are attached to every environment, so that leftovers can be found and told apart later by
// anyone. Providers store Map and read it back with ParseLabels.
type Labels struct {
	Job   string
	Trial string // the trial's key, for people
	Owner Owner
}

// Owner is the process that made an environment.
type Owner struct {
	Host  string // where PID means something: host name, boot and pid namespace
	PID   int
	Start string // the process's start time, opaque; tells reused PIDs apart
}

const labelPrefix = "rollout."

// LabelJob is present on every environment and image that Rollout made.
const LabelJob = labelPrefix + "job"

// Map is the labels as key and value strings.
func (l Labels) Map() map[string]string {
	return map[string]string{
		LabelJob:                    l.Job,
		labelPrefix + "trial":       l.Trial,
		labelPrefix + "owner.host":  l.Owner.Host,
		labelPrefix + "owner.pid":   strconv.Itoa(l.Owner.PID),
		labelPrefix + "owner.start": l.Owner.Start,
	}
}

// ParseLabels reads what Map wrote; what is missing or malformed is zero.
func ParseLabels(m map[string]string) Labels {
	pid, _ := strconv.Atoi(m[labelPrefix+"owner.pid"])
	return Labels{
		Job:   m[LabelJob],
		Trial: m[labelPrefix+"trial"],
		Owner: Owner{Host: m[labelPrefix+"owner.host"], PID: pid, Start: m[labelPrefix+"owner.start"]},
	}
}

// Self is this process.
func Self() Owner {
	_, start := process(os.Getpid())
	return Owner{Host: thisHost(), PID: os.Getpid(), Start: start}
}

// Liveness of an owner.
type Liveness int

// Unknown is the answer for owners on other hosts or in other containers.
const (
	Unknown Liveness = iota
	Alive
	Dead
)

// Alive tells whether the owner still runs, as far as this process can know.
func (o Owner) Alive() Liveness {
	if o.Host == "" || o.PID <= 0 || o.Host != thisHost() {
		return Unknown
	}
	if err := syscall.Kill(o.PID, 0); err == syscall.ESRCH {
		return Dead
	}
	state, start := process(o.PID)
	if state == "Z" || o.Start != "" && start != o.Start {
		return Dead // killed and not yet reaped, or another process by now
	}
	return Alive
}

// thisHost names the scope in which process ids are unique: this boot of this host, and this pid
// namespace of it (two containers on one host do not see each other's processes).
func thisHost() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	parts := []string{name}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		parts = append(parts, strings.TrimSpace(string(boot)))
	}
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		parts = append(parts, ns)
	}
	return strings.Join(parts, "/")
}

// process is the state and the start time (clock ticks since boot) of a process: fields 3 and 22 of
// /proc/<pid>/stat; "" where there is no /proc or no such process. The command name in field 2 may hold
// spaces and parentheses.
func process(pid int) (state, start string) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", ""
	}
	_, rest, ok := strings.Cut(string(stat[max(0, strings.LastIndexByte(string(stat), ')')):]), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return "", ""
	}
	return fields[0], fields[19]
}
