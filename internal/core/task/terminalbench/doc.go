// Package terminalbench reads tasks of terminal-bench before version 2: task.yaml, the one service
// of docker-compose.yaml, and solution.sh or solution.yaml. It knows neither package task nor
// trials.
package terminalbench
