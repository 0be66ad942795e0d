// Package junit reports a job as JUnit XML, in the dialect that its readers have in common:
// dorny/test-reporter, mikepenz/action-junit-report, EnricoMi/publish-unit-test-result-action,
// Jenkins, GitLab, Buildkite, CircleCI and Azure.
//
//   - A suite is one agent on one dataset. Suites are never nested, because not all readers support
//     that.
//   - A test case is one task, whatever the number of its attempts: name is the task, classname
//     <agent>.<dataset>. The two together are unique, because GitLab keeps only the first case of a
//     name.
//   - A case passes if an attempt has reward 1. Each attempt that did not is then a <flakyFailure>.
//     If none passed, the first one with a reward is the <failure> (type "reward"), and each
//     further attempt a <rerunFailure>. If none has a reward, the first error is there (type: the
//     type of error): as <failure> if the agent failed or took too long, else as <error>. Readers
//     that do not know these elements still see the case's outcome.
//   - A task without any result, or whose verifier is switched off, is <skipped>.
//   - Test cases of the task's own verifier (/logs/verifier/ctrf.json, or a JUnit file there) are
//     listed inside the failure, and in <system-out> of cases that pass. They are not cases
//     themselves, because every reader counts cases, and one failing task would look like many.
//   - Missing parts of a job are an <error> in a separate suite, so that no reader takes the rest
//     for the whole job.
//   - Each case has at most one <system-out>, with a line [[ATTACHMENT|path]] for each log. Jenkins
//     shows them for every case, GitLab only for those with a <failure>.
//   - Commit, rewards and costs are properties of suites: Jenkins' schema does not allow them in
//     cases.
//
// The result is valid against junit-10.xsd of Jenkins' xunit plugin, which rejects files that are
// not. That schema knows the attribute file for suites (where it is the directory of the suite's
// tasks) and not for cases; GitLab, CircleCI, Buildkite, EnricoMi and mikepenz read it there as
// well. With Reporter.CaseFiles it is written there, and the file is valid except for that.
package junit
