// Package app implements the use cases that run a job from its job file: run it, tell what a run
// would do, divide it among machines, and open a shell in a trial. A use case takes a request and
// returns values. It knows neither flags nor terminals: progress goes to the Output of its Host,
// and the caller chooses the exit code. The packages below it are the other use cases.
package app
