package config

// harborNames maps keys of Harbor's job files that Rollout does not have to their replacements.
// Source: Harbor 0.22, src/harbor/models/job/config.py.
var harborNames = map[string]string{
	"job_name":                   "Harbor's; write name",
	"orchestrator":               "Harbor's; write n_concurrent_trials and retry at the top level",
	"model_name":                 "Harbor's; pass the model as a variable in the agent's env, for its execute script",
	"import_path":                "Harbor's; write an execute script, which may start any program",
	"kwargs":                     "Harbor's; pass settings as variables in the agent's env",
	"override_setup_timeout_sec": "Harbor's; the limit is the task's agent.install_timeout_sec, times timeout_multiplier",
	"task_names":                 "Harbor's; write tasks",
	"exclude_task_names":         "Harbor's; write exclude_tasks",
	"registry_url":               "Harbor's; write registry: {url: …}",
	"registry_path":              "Harbor's; write registry: {path: …}",
	"extra_allowed_hosts":        "Harbor's; write allowed_hosts, with network: allowlist",
}
