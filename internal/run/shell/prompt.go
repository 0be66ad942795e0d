package shell

import (
	"time"
)

// Version is the version of the prompt, the tool and the loop. Results of different versions are
// not comparable.
const Version = "1"

// SystemPrompt is the system prompt, which comes before the instruction of the task.
const SystemPrompt = `You solve a task in a Linux environment by running commands with the tool bash. You work alone: nobody answers questions, so decide and go on.

- Each command runs in a new bash, in the working directory of the task. Files stay; variables and changes of the directory do not.
- Commands have no input and no terminal. Use options that ask nothing, such as -y, and no editors or pagers.
- Long output loses its middle.
- A command is ended after 120 seconds, unless you give timeout_sec. To start a server, send its output to a file and end the command with &.
- Look before you change something. Check what you did, by running it if you can.

When the task is solved, or you are sure that you cannot solve it, answer with a short summary and without a call of the tool. That ends your work.`

// The tool.
const (
	ToolName        = "bash"
	ToolDescription = "Run a command with bash in the working directory of the task. Returns its output (stdout and stderr together) and its exit code."
	commandText     = "The command: any bash script."
	timeoutText     = "Seconds after which the command is ended. Default: 120. At most 3600."
)

// User messages that follow an answer without text or calls, and one that was cut off.
const (
	emptyText = "Your answer was empty. Go on with the task. If it is done, say so."
	cutText   = "Your answer was cut off because it was too long. Go on, with shorter answers."
)

// Limits of the loop.
const (
	// MaxTurns limits the turns of agents whose budget has no limit.
	MaxTurns = 200

	defaultTimeout = 2 * time.Minute
	maxTimeout     = time.Hour

	maxOutput  = 16 << 10 // bytes of a command's output that the model reads
	maxCommand = 200_000  // bytes; every provider can run a command of this length
	maxCalls   = 32       // of one answer that are carried out
	maxIdle    = 5        // answers in a row that are empty or cut off

	maxAnswer = 64 << 20 // bytes of an answer's stream
	maxError  = 64 << 10 // bytes that are read of an error
)

// retryDelays holds the waits before each retry of a request. Half of each is random.
var retryDelays = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second}
