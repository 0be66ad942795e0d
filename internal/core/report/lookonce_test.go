package report

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/result"
)

// counted counts the looks at each path.
type counted struct {
	fstest.MapFS
	looks map[string]int
}

func (c counted) Lstat(name string) (fs.FileInfo, error) {
	c.looks[name]++
	return c.MapFS.Lstat(name)
}

func TestEachDirectoryOfATrialIsLookedAtOnce(t *testing.T) {
	one := result.Trial{Key: result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}, Reward: new(0.0)}
	files := counted{looks: map[string]int{}, MapFS: fstest.MapFS{
		one.Dir() + "/" + result.ResultFile:                       {Data: []byte("{}")},
		one.Dir() + "/" + commandStdout:                           {Data: []byte("said")},
		one.Dir() + "/" + commandStderr:                           {},
		one.Dir() + "/" + result.SetupDir:                         {Data: []byte("/"), Mode: fs.ModeSymlink},
		"a/d/t__2/" + result.LogsDir + "/verifier/" + "ctrf.json": {Data: []byte("{}")},
	}}
	plain, once := Input{Files: files.MapFS}, Input{Files: LookOnce(files)}
	for range 2 {
		want, got := Logs(plain, one), Logs(once, one)
		if len(got) != 2 || len(want) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("the logs are %q, and %q if each directory is looked at once", want, got)
		}
		if _, ok := VerifierTests(once, one); ok {
			t.Error("there are tests")
		}
	}
	for _, dir := range []string{"a", "a/d", one.Dir(), one.Dir() + "/" + result.LogsDir, one.Dir() + "/" + result.SetupDir, one.Dir() + "/" + result.CommandDir} {
		if n := files.looks[dir]; n != 1 {
			t.Errorf("%s was looked at %d times", dir, n)
		}
	}
	if n := files.looks[one.Dir()+"/"+result.VerifierDir]; n != 0 {
		t.Errorf("below a directory that is not there, it looked %d times", n)
	}
	if _, _, err := open(once.Files, one.Dir()+"/"+setupStdout); !errors.Is(err, errNotPlain) {
		t.Errorf("a file below a link: %v", err)
	}
}

func TestDirectoriesThatAreRememberedAreBounded(t *testing.T) {
	files := LookOnce(fstest.MapFS{})
	for i := range 3 * maxLookedAt {
		if IsDir(Input{Files: files}, "dir-"+Count(i)) {
			t.Fatal("it is there")
		}
	}
	if n := len(files.(*lookedAt).dirs); n > maxLookedAt {
		t.Errorf("%d are remembered", n)
	}
}
