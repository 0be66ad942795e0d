// Package ghvars reads the variables that GitHub Actions sets for a step. No other package spells
// their names in code. The users of the package interpret the values.
package ghvars

import (
	"slices"
	"strings"
)

// Token is the name of the variable with the workflow's token, which steps set themselves.
const Token = "GITHUB_TOKEN"

// names are the variables that GitHub sets for each step, without GITHUB_. Source: docs.github.com,
// "Variables reference".
var names = strings.Fields(`
	ACTION ACTION_PATH ACTION_REF ACTION_REPOSITORY ACTIONS ACTOR ACTOR_ID API_URL BASE_REF ENV EVENT_NAME EVENT_PATH GRAPHQL_URL
	HEAD_REF JOB OUTPUT PATH REF REF_NAME REF_PROTECTED REF_TYPE REPOSITORY REPOSITORY_ID REPOSITORY_OWNER REPOSITORY_OWNER_ID
	RETENTION_DAYS RUN_ATTEMPT RUN_ID RUN_NUMBER SERVER_URL SHA STATE STEP_SUMMARY TOKEN TRIGGERING_ACTOR WORKFLOW WORKFLOW_REF
	WORKFLOW_SHA WORKSPACE`)

// Reserved reports whether a variable is one that GitHub sets: the facts about a run, the files for
// a step's outputs, and the token.
func Reserved(name string) bool {
	name, ok := strings.CutPrefix(name, "GITHUB_")
	return ok && slices.Contains(names, name)
}

// Vars are the variables of a step. A variable that is not set is "". Source: docs.github.com,
// "Variables reference".
type Vars struct {
	Actions bool // this is a step

	ServerURL, APIURL            string
	Repository, Workspace        string
	EventName, EventPath         string
	Actor, Job, WorkflowRef      string
	SHA, Ref, BaseRef, HeadRef   string
	RunID, RunNumber, RunAttempt string

	Token string // of the workflow

	Output, State, Summary File
}

// File is a file through which a step passes data to the runner, such as its outputs.
type File struct {
	Variable string // that names the file
	Path     string // "" outside a step
}

// Read reads the variables from an environment, such as os.LookupEnv.
func Read(getenv func(string) (string, bool)) Vars {
	get := func(name string) string {
		value, _ := getenv("GITHUB_" + name)
		return strings.TrimSpace(value)
	}
	file := func(name string) File { return File{Variable: "GITHUB_" + name, Path: get(name)} }
	return Vars{
		Actions:   get("ACTIONS") == "true",
		ServerURL: get("SERVER_URL"), APIURL: get("API_URL"),
		Repository: get("REPOSITORY"), Workspace: get("WORKSPACE"),
		EventName: get("EVENT_NAME"), EventPath: get("EVENT_PATH"),
		Actor: get("ACTOR"), Job: get("JOB"), WorkflowRef: get("WORKFLOW_REF"),
		SHA: get("SHA"), Ref: get("REF"), BaseRef: get("BASE_REF"), HeadRef: get("HEAD_REF"),
		RunID: get("RUN_ID"), RunNumber: get("RUN_NUMBER"), RunAttempt: get("RUN_ATTEMPT"),
		Token:  get("TOKEN"),
		Output: file("OUTPUT"), State: file("STATE"), Summary: file("STEP_SUMMARY"),
	}
}
