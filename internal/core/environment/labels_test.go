package environment

import (
	"os/exec"
	"testing"

	"github.com/org/rollout-action/internal/lib/ghvars"
)

func TestLabelsContainTheWorkflow(t *testing.T) {
	vars := ghvars.Vars{
		Actions: true, ServerURL: "https://github.com", Repository: "acme/widgets", RunID: "123", RunAttempt: "2", Job: "eval",
	}
	got := workflowOf(vars)
	want := Workflow{Run: "https://github.com/acme/widgets/actions/runs/123", Attempt: 2, Job: "eval"}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	labels := Labels{Job: "j", Trial: "t", Owner: Owner{Host: "h", PID: 1, Workflow: want}}
	if back := ParseLabels(labels.Map()); back != labels {
		t.Errorf("labels are read back as %+v", back)
	}
	vars.Actions = false
	if got := workflowOf(vars); got != (Workflow{}) {
		t.Errorf("outside of a workflow: %+v", got)
	}
}

func TestOwnerAlive(t *testing.T) {
	self := Self()
	if self.Alive() != Alive {
		t.Error("this process is not alive")
	}
	if ParseLabels(Labels{Job: "j", Trial: "t", Owner: self}.Map()) != (Labels{Job: "j", Trial: "t", Owner: self}) {
		t.Error("labels do not survive Map and ParseLabels")
	}

	other := self
	other.Host = "elsewhere"
	if other.Alive() != Unknown {
		t.Error("a process of another host must be unknown")
	}
	if (Owner{}).Alive() != Unknown {
		t.Error("an owner without labels must be unknown")
	}
	reused := self
	reused.Start = "1"
	if self.Start != "" && reused.Alive() != Dead {
		t.Error("the owner of a reused process id must be dead")
	}

	cmd := exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, start := process(cmd.Process.Pid)
	child := Owner{Host: self.Host, PID: cmd.Process.Pid, Start: start}
	if child.Alive() != Alive {
		t.Error("a running child is not alive")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for child.Alive() == Alive { // the kernel takes a moment; the test's deadline bounds it
		continue
	}
	if child.Alive() != Dead {
		t.Error("a zombie must be dead")
	}
	_ = cmd.Wait()
	if child.Alive() != Dead {
		t.Error("a missing process must be dead")
	}
}
