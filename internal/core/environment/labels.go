package environment

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/org/rollout-action/internal/lib/ghvars"
)

// Labels are attached to every environment, so that anyone can find and identify leftovers.
// Providers store the result of Map and read it back with ParseLabels.
type Labels struct {
	Job   string
	Trial string // the trial's key, for users
	// Run identifies the job's directory, whichever process works on it; "": none, or unknown.
	Run   string
	Owner Owner
}

// Owner is the process that created an environment.
type Owner struct {
	Host  string // the scope of PID: host name, boot and pid namespace
	PID   int
	Start string // the process's start time, opaque; distinguishes reused PIDs
	// Workflow is the job of a GitHub workflow that the process belongs to; otherwise zero.
	Workflow Workflow
}

// Workflow is a job of a workflow run. With it, a later attempt of the same run on the same engine
// recognises leftovers of this one, although its process ran in a container that is gone.
type Workflow struct {
	Run     string // the run's page, the same for all its attempts
	Attempt int    // from 1
	Job     string // its id in the workflow; the jobs of a matrix share it
}

const labelPrefix = "rollout."

// LabelJob is a label of every environment and image that Rollout made.
const LabelJob = labelPrefix + "job"

// Labels of the containers, networks and volumes of an environment with services.
const (
	LabelGroup   = labelPrefix + "group"   // the same for all of one environment
	LabelService = labelPrefix + "service" // the name of the service
)

// Map returns the labels as key and value strings.
func (l Labels) Map() map[string]string {
	m := map[string]string{
		LabelJob:                    l.Job,
		labelPrefix + "trial":       l.Trial,
		labelPrefix + "owner.host":  l.Owner.Host,
		labelPrefix + "owner.pid":   strconv.Itoa(l.Owner.PID),
		labelPrefix + "owner.start": l.Owner.Start,
	}
	if l.Run != "" {
		m[labelPrefix+"directory"] = l.Run
	}
	if w := l.Owner.Workflow; w != (Workflow{}) {
		m[labelPrefix+"workflow.run"] = w.Run
		m[labelPrefix+"workflow.attempt"] = strconv.Itoa(w.Attempt)
		m[labelPrefix+"workflow.job"] = w.Job
	}
	return m
}

// ImageMap returns the labels of an image made from an environment: all keys, so the image inherits
// none of the environment's labels, which new environments of the image would then have.
func (l Labels) ImageMap() map[string]string {
	m := l.Map()
	for _, key := range []string{"directory", "workflow.run", "workflow.attempt", "workflow.job", "group", "service"} {
		if _, ok := m[labelPrefix+key]; !ok {
			m[labelPrefix+key] = ""
		}
	}
	return m
}

// ParseLabels parses the result of Map; missing or malformed values become zero.
func ParseLabels(m map[string]string) Labels {
	pid, _ := strconv.Atoi(m[labelPrefix+"owner.pid"])
	attempt, _ := strconv.Atoi(m[labelPrefix+"workflow.attempt"])
	return Labels{
		Job:   m[LabelJob],
		Trial: m[labelPrefix+"trial"],
		Run:   m[labelPrefix+"directory"],
		Owner: Owner{
			Host: m[labelPrefix+"owner.host"], PID: pid, Start: m[labelPrefix+"owner.start"],
			Workflow: Workflow{Run: m[labelPrefix+"workflow.run"], Attempt: attempt, Job: m[labelPrefix+"workflow.job"]},
		},
	}
}

// Self returns this process.
func Self() Owner {
	_, start := process(os.Getpid())
	return Owner{Host: thisHost(), PID: os.Getpid(), Start: start, Workflow: workflowOf(ghvars.Read(os.LookupEnv))}
}

// workflowOf returns the workflow of a process with these variables.
func workflowOf(vars ghvars.Vars) Workflow {
	if !vars.Actions || vars.RunID == "" {
		return Workflow{}
	}
	attempt, _ := strconv.Atoi(vars.RunAttempt)
	return Workflow{
		Run:     fmt.Sprintf("%s/%s/actions/runs/%s", vars.ServerURL, vars.Repository, vars.RunID),
		Attempt: attempt, Job: vars.Job,
	}
}

// RunsAfter reports whether w is a later attempt of the run of earlier. All jobs of an attempt end
// before the next one begins.
func (w Workflow) RunsAfter(earlier Workflow) bool {
	return w.Run != "" && w.Run == earlier.Run && w.Attempt > earlier.Attempt && earlier.Attempt > 0
}

// Liveness is the state of an owner.
type Liveness int

// Unknown is the result for owners on other hosts or in other containers.
const (
	Unknown Liveness = iota
	Alive
	Dead
)

// Alive reports whether the owner still runs, as far as this process can know.
func (o Owner) Alive() Liveness {
	if o.Host == "" || o.PID <= 0 || o.Host != thisHost() {
		return Unknown
	}
	if err := syscall.Kill(o.PID, 0); err == syscall.ESRCH {
		return Dead
	}
	state, start := process(o.PID)
	if state == "Z" || o.Start != "" && start != o.Start {
		return Dead // killed and not yet reaped, or another process with the same id
	}
	return Alive
}

// thisHost names the scope in which process ids are unique: this boot of this host, and this pid
// namespace (two containers on one host do not see each other's processes).
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

// process returns the state and the start time (clock ticks since boot) of a process: fields 3 and
// 22 of /proc/<pid>/stat. Both are "" if there is no /proc or no such process. The command name in
// field 2 may contain spaces and parentheses.
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

// defaultProvider is the provider of commands that name none. Source: specification,
// "environment.type".
const defaultProvider = "docker"

// CleanCommand returns the rollout command that removes the environments and images of a provider,
// with further flags.
func CleanCommand(provider string, flags ...string) string {
	words := append([]string{"rollout", "clean"}, flags...)
	if provider != defaultProvider {
		words = append(words, "--env-type", provider)
	}
	return strings.Join(words, " ")
}
