package config

// harborNames are keys that job files of Harbor have and ours do not, with what to write here.
// Source: Harbor 0.22, src/harbor/models/job/config.py.
var harborNames = map[string]string{
	"job_name":                   "Harbor's; here it is name",
	"orchestrator":               "Harbor's; n_concurrent_trials and retry stand at the top level here",
	"model_name":                 "Harbor's; here a model is a variable in the agent's env, which its execute script reads",
	"import_path":                "Harbor's; here an agent is an execute script, which may start any program",
	"kwargs":                     "Harbor's; here settings are variables in the agent's env",
	"override_setup_timeout_sec": "Harbor's; here the task's agent.install_timeout_sec counts, times timeout_multiplier",
	"task_names":                 "Harbor's; here it is tasks",
	"exclude_task_names":         "Harbor's; here it is exclude_tasks",
	"registry_url":               "Harbor's; here it is registry: {url: …}",
	"registry_path":              "Harbor's; here it is registry: {path: …}",
	"extra_allowed_hosts":        "Harbor's; here it is allowed_hosts, with network: allowlist",
}
