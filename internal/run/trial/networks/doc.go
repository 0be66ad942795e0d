// Package networks determines the network of each phase of a trial from the task and the job, and
// counts the requests that the filtering proxy refuses meanwhile.
package networks
