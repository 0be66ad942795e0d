package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/nofollow"
)

// MaxConfigFile is the maximum size of a config.json, in bytes. Job files are smaller.
const MaxConfigFile = 8 << 20

// ReadConfig reads the config.json in a job's directory. The error is fs.ErrNotExist if there is
// none. A link is not followed.
func ReadConfig(dir string) ([]byte, error) {
	return nofollow.ReadFile(filepath.Join(dir, ConfigFile), MaxConfigFile)
}

// maxHead bounds the part that is read of the beginning of a large file, in bytes.
const maxHead = 16 << 20

// maxHeadFields bounds the keys in that part. A plan has about 20, a result 40.
const maxHeadFields = 1000

// ReadPlanHead reads the beginning of the plan.json in a job's directory: everything before tasks,
// trials and shard_of. The error is fs.ErrNotExist if there is no plan. A link is not followed, and
// a torn file is an error.
func ReadPlanHead(dir string) (Plan, error) {
	return readHead[Plan](filepath.Join(dir, PlanFile), "tasks", "trials", "shard_of")
}

// ReadJobHead reads the beginning of the result.json in a job's directory, as ReadPlanHead does: no
// agents and no results.
func ReadJobHead(dir string) (Job, error) {
	return readHead[Job](filepath.Join(dir, ResultFile), "agents", "results")
}

// readHead reads a large JSON object up to the first of the named keys. The file has to end like
// one: a torn one is an error.
func readHead[T any](path string, until ...string) (head T, err error) {
	f, err := nofollow.Open(path)
	if err != nil {
		return head, err
	}
	defer f.Close()
	if err := endsWhole(f); err != nil {
		return head, err
	}
	dec := json.NewDecoder(io.LimitReader(f, maxHead))
	fields := map[string]json.RawMessage{}
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return head, errors.New("it is no JSON object")
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return head, err
		}
		name, _ := key.(string)
		if slices.Contains(until, name) {
			break
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return head, err
		}
		if fields[name] = value; len(fields) > maxHeadFields {
			return head, errors.New("it has too many keys, so Rollout did not write it")
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return head, err
	}
	err = bounded.Unmarshal(text, &head)
	return head, err
}

// endsWhole returns an error if a file does not end with a brace.
func endsWhole(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	tail := make([]byte, min(16, info.Size()))
	if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil {
		return err
	}
	if !bytes.HasSuffix(bytes.TrimSpace(tail), []byte("}")) {
		return errors.New("it is torn")
	}
	return nil
}
