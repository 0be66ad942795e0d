package artifacts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/record"
	"github.com/org/rollout-action/internal/run/trial/services"
)

// Limits of all artifacts of a trial together.
const (
	maxArtifactBytes = 1 << 30
	// maxExecutable limits the executable files of one artifact that a result lists.
	maxExecutable = 1000
)

// Keep copies the wanted artifacts out of an environment into the directory of a trial, and adds
// them to those of the trial's record, with which they share the limits. Artifacts that it cannot
// copy become warnings. It returns the first one that is there and was not kept whole; nil: there
// is none.
func Keep(ctx context.Context, r *record.Record, env environment.Environment, wanted []task.Artifact) (first *Unkept) {
	unkept := func(source string, err error) {
		if first == nil {
			first = &Unkept{Source: source, Err: err}
		}
	}
	left := environment.ExtractOptions{MaxBytes: maxArtifactBytes, MaxFiles: MaxFiles}
	for _, before := range r.Trial.Artifacts {
		left.MaxBytes -= before.Bytes
		left.MaxFiles -= before.Files
	}
	for _, w := range wanted {
		if left.MaxBytes <= 0 || left.MaxFiles <= 0 { // those before took it
			r.Warn("the artifact %s is not copied: there is no space left", w.Source)
			unkept(w.Source, nil)
			return first
		}
		kept, err := keepOne(ctx, r, env, w, left)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			r.Warn("the artifact %s is not there", w.Source)
		case errors.As(err, new(notKept)):
			r.Warn("the artifact %s could not be copied: it is %s", w.Source, failure.Brief(err, r.Secrets))
		case err != nil:
			r.Warn("the artifact %s could not be copied whole: %s", w.Source, failure.Brief(err, r.Secrets))
			if errors.Is(err, environment.ErrTooLarge) {
				err = nil
			}
			unkept(w.Source, err)
		case kept.Incomplete:
			unkept(w.Source, nil)
		}
		if kept.Path != "" {
			r.Trial.Artifacts = append(r.Trial.Artifacts, kept)
		}
		left.MaxBytes -= kept.Bytes
		left.MaxFiles -= kept.Files
		if left.MaxBytes <= 0 || left.MaxFiles <= 0 || ctx.Err() != nil {
			r.Warn("artifacts after %s are not copied: there is no space or time left", w.Source)
			unkept(w.Source, ctx.Err())
			return first
		}
	}
	return first
}

// Unkept is an artifact of which a trial has only a part, or nothing.
type Unkept struct {
	Source string
	// Err is why it could not be copied; nil: it is too large, or has entries that cannot be kept
	// (devices, secrets in names).
	Err error
}

// notKept is an artifact that is neither a file nor a directory: "a symbolic link to /etc".
type notKept string

func (n notKept) Error() string { return string(n) }

// keepOne copies one artifact. It first copies into a separate directory, because only the
// copy shows whether the artifact is a file.
func keepOne(ctx context.Context, r *record.Record, env environment.Environment, w task.Artifact, left environment.ExtractOptions) (result.Artifact, error) {
	none := result.Artifact{}
	stage, err := os.MkdirTemp(r.Dir, "incoming-*")
	if err != nil {
		return none, fmt.Errorf("make a directory: %w", err)
	}
	defer os.RemoveAll(stage)
	if err := os.Chmod(stage, 0o755); err != nil { // like the directories of logs
		return none, fmt.Errorf("make a directory: %w", err)
	}
	options := record.ExtractOptions(r.Secrets)
	options.MaxBytes, options.MaxFiles, options.Skip = left.MaxBytes, left.MaxFiles, excludes(w.Exclude)
	in, err := services.Container(env, w.Service)
	if err != nil {
		return none, err
	}
	got, copying := in.CopyFrom(ctx, w.Source, stage, options)
	if errors.Is(copying, fs.ErrNotExist) {
		return none, copying
	}
	at := artifactPath(w.Destination)
	for _, o := range got.Omitted {
		if got.Single {
			o.Path = ""
		}
		r.Omit(path.Join(at, o.Path), o.Reason)
	}
	if !got.Single {
		for _, renamed := range got.Renamed {
			r.Rename(path.Join(w.Source, renamed.From), path.Join(at, renamed.To))
		}
	}
	if got.Files == 0 && copying != nil {
		return none, copying
	}
	if got.Single && got.Files == 0 && len(got.Omitted) > 0 && copying == nil {
		return none, notKept(got.Omitted[0].Reason)
	}
	from, err := stagedPath(stage, got.Single)
	if err != nil || from == "" {
		return none, errors.Join(copying, err)
	}
	to := filepath.Join(r.Dir, filepath.FromSlash(at))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return none, errors.Join(copying, err)
	}
	if _, err := os.Lstat(to); err == nil {
		return none, errors.Join(copying, fmt.Errorf("%s is there already", at))
	}
	if err := os.Rename(from, to); err != nil {
		return none, errors.Join(copying, err)
	}
	kept := result.Artifact{
		Source: w.Source, Path: at, Files: got.Files, Bytes: got.Bytes, Executable: got.Executable,
		Incomplete: copying != nil || got.Incomplete,
	}
	if got.Single && len(got.Executable) > 0 {
		kept.Executable = []string{"."}
	}
	if len(kept.Executable) > maxExecutable {
		kept.Executable = nil // the entries have their modes
	}
	links, hiddenLink := withoutSecrets(r.Secrets, got.Links, func(l environment.Link) string { return l.Path })
	entries, hiddenEntry := withoutSecrets(r.Secrets, got.Entries, func(e environment.Entry) string { return e.Path })
	var errLinks, errEntries error
	kept.Links, errLinks = keepLinks(r, links)
	kept.Entries, errEntries = keepEntries(r, entries)
	kept.Incomplete = kept.Incomplete || hiddenLink || hiddenEntry || errLinks != nil || errEntries != nil
	return kept, errors.Join(copying, errLinks, errEntries)
}

// withoutSecrets returns those of the links or entries of an artifact that have no secret in their
// names, and whether there are others.
func withoutSecrets[T any](secrets *redact.Redactor, list []T, name func(T) string) (shown []T, hidden bool) {
	shown = slices.DeleteFunc(slices.Clone(list), func(t T) bool { return secrets.String(name(t)) != name(t) })
	return shown, len(shown) < len(list)
}

// keepLinks writes the links of the next artifact to a file, and returns the file's path below the
// trial's directory.
func keepLinks(r *record.Record, links []environment.Link) (string, error) {
	if len(links) == 0 {
		return "", nil
	}
	links = slices.Clone(links)
	for i, l := range links {
		if l.Kind == environment.SymbolicLink { // the target of a hard link is the path of a file of the artifact
			links[i].Target = r.Secrets.String(l.Target)
		}
	}
	text, err := result.Marshal(links)
	if err != nil {
		return "", fmt.Errorf("keep the links: %w", err)
	}
	return keepList(r, result.LinksDir, ".json", text)
}

// keepEntries writes the entries of the next artifact to a file, and returns the file's path below
// the trial's directory.
func keepEntries(r *record.Record, entries []environment.Entry) (string, error) {
	if len(entries) == 0 {
		return "", nil
	}
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	lines.SetEscapeHTML(false)
	for _, e := range entries {
		if err := lines.Encode(e); err != nil {
			return "", fmt.Errorf("keep owners and modes: %w", err)
		}
	}
	return keepList(r, result.EntriesDir, ".jsonl", text.Bytes())
}

// keepList writes a file about the next artifact into one of the trial's directories.
func keepList(r *record.Record, dir, suffix string, text []byte) (string, error) {
	at := fmt.Sprintf("%s/%d%s", dir, len(r.Trial.Artifacts)+1, suffix)
	err := os.MkdirAll(filepath.Join(r.Dir, dir), 0o755)
	if err == nil {
		err = result.WriteFile(filepath.Join(r.Dir, filepath.FromSlash(at)), text)
	}
	if err != nil {
		return "", fmt.Errorf("keep %s: %w", at, err)
	}
	return at, nil
}

// stagedPath returns the path to move into place: the directory, or the file in it; "" if that
// could not be written.
func stagedPath(stage string, single bool) (string, error) {
	if !single {
		return stage, nil
	}
	entries, err := os.ReadDir(stage)
	if err != nil || len(entries) == 0 {
		return "", err
	}
	return filepath.Join(stage, entries[0].Name()), nil
}

// artifactPath returns the path of an artifact below the trial's directory. The destination is from
// the task.
func artifactPath(destination string) string {
	elements := strings.Split(destination, "/")
	for i, e := range elements {
		elements[i] = result.Slug(e)
	}
	return path.Join(result.ArtifactsDir, path.Join(elements...))
}

// excludes returns a function that matches paths as tar --exclude does: a pattern matches one name,
// or several with / between, at any depth, and a matching directory excludes all of its contents.
func excludes(patterns []string) func(string) bool {
	if len(patterns) == 0 {
		return nil
	}
	return func(name string) bool {
		elements := strings.Split(name, "/")
		for _, p := range patterns {
			p = strings.Trim(strings.TrimPrefix(p, "./"), "/")
			n := strings.Count(p, "/") + 1
			for i := 0; i+n <= len(elements); i++ {
				if ok, _ := path.Match(p, strings.Join(elements[i:i+n], "/")); ok {
					return true
				}
			}
		}
		return false
	}
}
