// Package json reports a job for programs: one JSON object with the verdict, the numbers, the
// comparison with the baseline and every task. Report has the fields. It shortens nothing, but
// leaves logs out.
package json
