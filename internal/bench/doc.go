// Command bench measures Rollout against a floor, the same work without Rollout, side by side in one run:
//
//	go run ./internal/bench                          # everything; takes some minutes
//	go run ./internal/bench --only docker --rounds 40
//	go run ./internal/bench --json bench.json --check
//
// The two sides take turns, pair by pair, after warm-ups, and ratios are computed per pair: the load of the machine changes from
// minute to minute and affects both. Absolute times do not carry over to other machines.
//
// What is measured:
//
//	docker.sequential  a job of one hello trial: install, agent and verifier scripts, instruction and
//	                   tests in, /logs out, destroyed, everything written; floor: the same engine
//	                   calls made bare, nothing written
//	docker.run         the same trial; floor: the process "docker run --rm IMAGE true"
//	docker.parallel    jobs of 24 hello trials by 8 workers, in trials per second; floor: the bare calls by 8
//	sandbox.trial      the same job of one hello trial in a sandbox, as root; floor: the same scripts run
//	                   and the same files written without one
//	sandbox.user       the same as an ordinary user: root starts a process as one
//	sandbox.network    the same, in a sandbox with a network of its own; floor: in one on this machine's network
//	sandbox.download   a download in a sandbox with a network of its own, in MB a second; floor: the same download by
//	                   a process of this machine, over its loopback device
//	sandbox.docker     that job, as whoever measures; floor: the same job on a Docker engine
//	sandbox.parallel   jobs of 48 hello trials by 8 workers, in trials per second; floor: as many
//	                   without a sandbox by 8
//	sandbox.exec       a script that does nothing, in a live sandbox; floor: the process "bash -c true"
//	sandbox.create     100 sandboxes created by 8 workers; floor: 100 processes that do nothing, in
//	                   namespaces of their own
//	sandbox.memory     the memory of each of the 100, as its share of all (PSS); floor: of those processes
//	engine.trial       10,000 trials on a provider that does nothing, by 8 workers, in a process of its
//	                   own; floor: the same files written the same way
//	engine.memory      that process's largest resident set; floor: the process that writes the files
//	engine.plan        100,000 trials planned, named, checked, encoded
//	merge.time         100,000 trials from 64 shards merged, in a process of its own; floor: the same results read,
//	                   directories made and files linked bare
//	merge.move         the same with --move; floor: the same results read, directories moved bare
//	merge.memory       that process's largest resident set; floor: that of the process that only links
//	binary.size        the stripped binary; floor: a program that prints a line
//	binary.version     "rollout version" as a process; floor: the same program
//
// --json writes a Report. The exit code is 0, or 3 if measuring failed. With --check it is 1 if a target was missed or could not
// be measured.
package main
