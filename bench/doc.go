// Command bench measures Rollout and checks the targets of docs/internals/performance.md:
//
//	go run ./bench                          # everything; takes some minutes
//	go run ./bench --only docker --rounds 40
//	go run ./bench --check
//
// measurements lists what is measured. A target that is relative has a floor, the same work without Rollout. Both take turns,
// pair by pair, after warm-ups, and ratios are computed per pair: the load of the machine changes from minute to minute and
// affects both. Absolute times do not carry over to other machines.
//
// The exit code is 0, or 3 if measuring failed. With --check it is 1 if a target was missed or could not
// be measured.
package main
