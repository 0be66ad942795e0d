// Package junit reports a job as JUnit XML, in the dialect that its readers have in common: dorny/test-reporter,
// mikepenz/action-junit-report, EnricoMi/publish-unit-test-result-action, Jenkins, GitLab, Buildkite, CircleCI and Azure.
//
//   - A suite is one agent on one dataset, and is never nested: not all read that.
//   - A test case is one task, whatever the number of its attempts: name is the task, classname <agent>.<dataset>. The two
//     together are unique, for GitLab keeps the first of a name only.
//   - A case passes if an attempt has reward 1. Each attempt that did not is then a <flakyFailure>. If none passed, the
//     first that was judged is the <failure> (type "reward"), and each further attempt a <rerunFailure>. If none was judged, the
//     first error stands there (type: the type of error): as <failure> if the agent failed or took too long, else as <error>.
//     Readers that know none of these elements see the case's outcome all the same.
//   - A task without any result, or whose verifier is switched off, is <skipped>.
//   - Test cases of the task's own verifier (/logs/verifier/ctrf.json, or a JUnit file there) are listed inside the
//     failure, and in <system-out> of cases that pass. They are no cases of their own: every reader counts those, and one
//     failing task would look like many.
//   - What is missing from a job is an <error> in a suite of its own, so that no reader takes the rest for all.
//   - <system-out> is one for each case, with a line [[ATTACHMENT|path]] for each log. Jenkins shows them for every
//     case, GitLab only for those with a <failure>.
//   - Commit, rewards and costs are properties of suites: in cases, Jenkins' schema has no place for them.
//
// The result is valid against junit-10.xsd of Jenkins' xunit plugin, which rejects files that are not. That schema knows the
// attribute file for suites (where it is the folder of the suite's tasks) and not for cases; GitLab, CircleCI, Buildkite,
// EnricoMi and mikepenz read it there as well. With Reporter.CaseFiles it is written there, and the file is valid but for it.
package junit
