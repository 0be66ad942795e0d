package mine

// Reason says what became of a commit. Programs read it, so a reason keeps its name.
type Reason string

// The reasons that are known from the commit alone.
const (
	Root         Reason = "root"           // it has no parent
	Exists       Reason = "exists"         // the dataset has this task
	TooManyFiles Reason = "too_many_files" // it changes more than MaxFiles files
	Submodule    Reason = "submodule"      // it changes a submodule
	Link         Reason = "link"           // it changes a symbolic link
	OddName      Reason = "odd_name"       // a name is too long, is not UTF-8 or has control characters
	RenameOnly   Reason = "rename_only"    // it only moves files
	Paths        Reason = "paths"          // it changes no code below the paths that are asked for
	NoCode       Reason = "no_code"        // it changes neither code nor tests
	TestsOnly    Reason = "tests_only"     // it changes tests and no code
	NoTests      Reason = "no_tests"       // it changes code and adds or changes no test
	Generated    Reason = "generated"      // all code that it changes is generated
	Vendored     Reason = "vendored"       // all code that it changes is a copy of other projects'
	NoRunner     Reason = "no_runner"      // its tests have no runner that Rollout knows
	Several      Reason = "several"        // its tests are in several languages or modules
	TooLarge     Reason = "too_large"      // a file or the change is too large
	Binary       Reason = "binary"         // it changes a file that is no text
	Formatting   Reason = "formatting"     // it changes only white space in code
	Tree         Reason = "tree"           // the files of the commit before cannot be written
)

// The reasons that only a run tells.
const (
	BuildFailed  Reason = "build_failed"  // the image cannot be built
	TooSlow      Reason = "too_slow"      // a step takes too long
	FailsAfter   Reason = "fails_after"   // no test passes after the change, or not always all
	Unnamed      Reason = "unnamed"       // its tests pass and name no test
	NoNewTest    Reason = "no_new_test"   // each test passes without the change, too
	BreaksTests  Reason = "breaks_tests"  // a test passes before the change and not after it
	Flaky        Reason = "flaky"         // the same runs end differently
	NeedsNetwork Reason = "needs_network" // the tests fail without a network
	Flawed       Reason = "flawed"        // a rule of validate finds an error in the task
	NotKnown     Reason = "not_known"     // the infrastructure failed, or the command was interrupted
	Promising    Reason = "promising"     // nothing speaks against it, and it was not run
	Proven       Reason = "proven"        // it is a task of the dataset
)

// The limits of a change.
const (
	MaxFiles = 40      // that a change may have
	MaxLines = 1000    // of code, added and removed
	maxFile  = 1 << 20 // bytes of a changed file
	maxBytes = 8 << 20 // of all changed files, before and after
)
