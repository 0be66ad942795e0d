package files

import (
	"errors"
	"io/fs"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// restoreChecks check environments that continue with the files of kept ones.
func restoreChecks() []suite.Check {
	return []suite.Check{
		{Name: "a kept environment is continued with its files, and does not change", Run: suite.Needing(suite.Restorer, checkRestore)},
		{Name: "only a kept environment is continued", Run: suite.Needing(suite.Restorer, checkRestoreNotKept)},
	}
}

// restore continues with a kept environment.
func restore(s *suite.Scene, id string, change ...func(*environment.CreateOptions)) (*suite.Env, error) {
	opts := environment.CreateOptions{Image: s.Opts.Image, Labels: s.Labels}
	for _, c := range change {
		c(&opts)
	}
	env, err := environment.Restore(s.Ctx, s.Provider, id, opts)
	if err != nil {
		return nil, err
	}
	s.Cleanup(func() {
		if err := env.Destroy(s.Ctx); err != nil {
			s.Errorf("Destroy: %v", err)
		}
	})
	return &suite.Env{Environment: env, Scene: s}, nil
}

func checkRestore(s *suite.Scene) {
	withVariable := func(o *environment.CreateOptions) { o.Env = map[string]string{"WHO": "me"} }
	kept := s.Create(withVariable)
	settings := kept.Run("pwd; echo $PATH; id -u; echo $WHO")
	kept.Run("mkdir /made && echo first >/made/file && ln -s file /made/link && rm -rf /opt && echo '#' >>/etc/passwd")
	if err := kept.Stop(s.Ctx); err != nil {
		s.Fatalf("Stop: %v", err)
	}
	in := func(o *environment.CreateOptions) {
		withVariable(o)
		o.Files = []environment.Copy{{Src: suite.Files(map[string]string{"f": "copied\n"}), Dst: "/in"}}
	}
	const state = `cat /made/link; test -e /opt || echo none; tail -n 1 /etc/passwd; cat /in/f`
	for range 2 {
		b, err := restore(s, kept.ID(), in)
		if err != nil {
			s.Fatalf("Restore: %v", err)
		}
		if b.ID() == kept.ID() {
			s.Errorf("the kept environment itself continues")
		}
		s.Equal("the files", b.Run(state), "first\nnone\n#\ncopied\n")
		s.Equal("the settings", b.Run("pwd; echo $PATH; id -u; echo $WHO"), settings)
		b.Run("echo second >/made/file; rm /made/link; mkdir /opt")
		if err := b.Destroy(s.Ctx); err != nil {
			s.Errorf("Destroy: %v", err)
		}
	}
	if got := s.Listed(); len(got) != 1 || got[0].ID != kept.ID() || !got[0].Kept {
		s.Errorf("listed %+v, want the kept environment", got)
	}
}

func checkRestoreNotKept(s *suite.Scene) {
	_, err := restore(s, "0000nosuchenvironment0000")
	if !errors.Is(err, fs.ErrNotExist) {
		s.Errorf("Restore of nothing: %v, want fs.ErrNotExist", err)
	}
	env := s.Create()
	_, err = restore(s, env.ID())
	s.WantKind("Restore of what runs", err, environment.KindStart)
	if err := env.Destroy(s.Ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	if _, err = restore(s, env.ID()); !errors.Is(err, fs.ErrNotExist) {
		s.Errorf("Restore of a removed environment: %v, want fs.ErrNotExist", err)
	}
}
