package task

// commits finds the commits of the repositories that tasks are in.
type commits struct{}

func (c *commits) of(dir string) *string { return nil }
