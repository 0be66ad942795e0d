// Package json reports a job for programs: one JSON object with the verdict, the numbers, the comparison with the
// baseline and every task. See Report for its fields. It does not shorten anything but logs, which it leaves out.
package json
