package sandbox

// Options are what a provider needs to know of this machine and of who uses it.
type Options struct {
	// Hide are absolute paths that no environment may show: tasks, datasets, job folders.
	Hide []string
	// Progress, if not nil, gets lines for people while New takes its time.
	Progress func(string)
}
