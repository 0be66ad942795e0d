package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/untrusted"
)

// scaffold is what init writes.
//
//go:embed all:scaffold
var scaffold embed.FS

// workflowPath is where the scaffold's workflow.yml goes.
const workflowPath = ".github/workflows/rollout.yml"

func newInitCommand(v *invocation) *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a first job: a job.yaml, a dataset with one task, a workflow",
		Long: `Write job.yaml, a dataset of one task (evals/hello) and a GitHub workflow into a directory
(default: the current one). Files that exist are never written over: if one does, nothing is written.
` + doneCodes,
		Example: `  rollout init
  rollout init my-evals && cd my-evals && rollout job.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneArg("at most a directory")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return v.init(dir)
		},
	}
}

func (v *invocation) init(dir string) error {
	files, err := scaffoldFiles()
	if err != nil {
		return err
	}
	root := v.path(dir)
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(root, f.path)); err == nil {
			return usage("%s exists already: nothing was written (choose another directory, or move it away)", filepath.Join(dir, f.path))
		}
	}
	for _, f := range files {
		target := filepath.Join(root, f.path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := writeNew(target, f.data, f.mode); err != nil {
			return err
		}
		fmt.Fprintln(v.Stdout, filepath.Join(dir, f.path))
	}
	job := filepath.Join(dir, "job.yaml")
	fmt.Fprintf(v.Stderr, "next: rollout validate %s, then rollout %s\n", untrusted.ShellPath(job), untrusted.ShellPath(job))
	if filepath.Clean(dir) != "." {
		fmt.Fprintf(v.Stderr, "GitHub reads workflows at the top of a repository only: move %s there, and adapt its paths, if %s is not that\n",
			filepath.Join(dir, workflowPath), dir)
	}
	return nil
}

func writeNew(target string, data []byte, mode fs.FileMode) (err error) {
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.Write(data)
	return err
}

type scaffoldFile struct {
	path string // below the target directory
	data []byte
	mode fs.FileMode
}

func scaffoldFiles() ([]scaffoldFile, error) {
	var files []scaffoldFile
	err := fs.WalkDir(scaffold, "scaffold", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := scaffold.ReadFile(name)
		if err != nil {
			return err
		}
		f := scaffoldFile{path: filepath.FromSlash(name[len("scaffold/"):]), data: data, mode: 0o644}
		if path.Base(name) == "gitignore" {
			f.path = ".gitignore"
		}
		if path.Base(name) == "workflow.yml" {
			f.path = filepath.FromSlash(workflowPath)
		}
		if path.Ext(name) == ".sh" {
			f.mode = 0o755
		}
		files = append(files, f)
		return nil
	})
	return files, err
}
