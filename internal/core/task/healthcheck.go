package task

// Healthcheck is [environment.healthcheck], with the meaning of Docker's HEALTHCHECK; seconds. It
// runs before anything else in an environment. Source: Harbor 0.22,
// src/harbor/models/task/config.py.
type Healthcheck struct {
	Command          string  `toml:"command" required:"true" pattern:"\\S" is:"a command" hint:"write command = \"...\"; exit code 0 is healthy" doc:"For bash. Exit code 0 is healthy."`
	IntervalSec      float64 `toml:"interval_sec" default:"5" min:"0" max:"a day" is:"a number of seconds" doc:"Seconds between checks."`
	TimeoutSec       float64 `toml:"timeout_sec" default:"30" min:"0.001 seconds" max:"a year" is:"a number of seconds" doc:"Seconds that a check may take."`
	StartPeriodSec   float64 `toml:"start_period_sec" default:"0" min:"0" max:"a day" is:"a number of seconds" doc:"Seconds in which failures do not count."`
	StartIntervalSec float64 `toml:"start_interval_sec" default:"5" min:"0" max:"a day" is:"a number of seconds" doc:"Seconds between checks in that time."`
	Retries          int     `toml:"retries" default:"3" min:"1" max:"10000" doc:"Failures in a row after which the environment is given up."`
}
