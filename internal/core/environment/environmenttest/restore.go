package environmenttest

import (
	"errors"
	"io/fs"

	"github.com/org/rollout-action/internal/core/environment"
)

// restoreChecks check environments that continue with the files of kept ones.
func restoreChecks() []check {
	return []check{
		{"a kept environment is continued with its files, and does not change", needing(restorer, checkRestore)},
		{"only what was kept is continued", needing(restorer, checkRestoreNotKept)},
	}
}

// restore continues with a kept environment.
func (s *scene) restore(id string, change ...func(*environment.CreateOptions)) (*box, error) {
	opts := environment.CreateOptions{Image: s.opts.Image, Labels: s.labels}
	for _, c := range change {
		c(&opts)
	}
	env, err := environment.Restore(s.ctx, s.provider, id, opts)
	if err != nil {
		return nil, err
	}
	s.Cleanup(func() {
		if err := env.Destroy(s.ctx); err != nil {
			s.Errorf("Destroy: %v", err)
		}
	})
	return &box{Environment: env, s: s}, nil
}

func checkRestore(s *scene) {
	withVariable := func(o *environment.CreateOptions) { o.Env = map[string]string{"WHO": "me"} }
	kept := s.create(withVariable)
	settings := kept.run("pwd; echo $PATH; id -u; echo $WHO")
	kept.run("mkdir /made && echo first >/made/file && ln -s file /made/link && rm -rf /opt && echo '#' >>/etc/passwd")
	if err := kept.Stop(s.ctx); err != nil {
		s.Fatalf("Stop: %v", err)
	}
	in := func(o *environment.CreateOptions) {
		withVariable(o)
		o.Files = []environment.Copy{{Src: files(map[string]string{"f": "copied\n"}), Dst: "/in"}}
	}
	const state = `cat /made/link; test -e /opt || echo none; tail -n 1 /etc/passwd; cat /in/f`
	for range 2 {
		b, err := s.restore(kept.ID(), in)
		if err != nil {
			s.Fatalf("Restore: %v", err)
		}
		if b.ID() == kept.ID() {
			s.Errorf("the kept environment itself continues")
		}
		s.equal("the files", b.run(state), "first\nnone\n#\ncopied\n")
		s.equal("the settings", b.run("pwd; echo $PATH; id -u; echo $WHO"), settings)
		b.run("echo second >/made/file; rm /made/link; mkdir /opt")
		if err := b.Destroy(s.ctx); err != nil {
			s.Errorf("Destroy: %v", err)
		}
	}
	if got := s.listed(); len(got) != 1 || got[0].ID != kept.ID() || !got[0].Kept {
		s.Errorf("listed %+v, want the kept environment", got)
	}
}

func checkRestoreNotKept(s *scene) {
	_, err := s.restore("0000nosuchenvironment0000")
	if !errors.Is(err, fs.ErrNotExist) {
		s.Errorf("Restore of nothing: %v, want fs.ErrNotExist", err)
	}
	env := s.create()
	_, err = s.restore(env.ID())
	s.wantKind("Restore of what runs", err, environment.KindStart)
	if err := env.Destroy(s.ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	if _, err = s.restore(env.ID()); !errors.Is(err, fs.ErrNotExist) {
		s.Errorf("Restore of what is gone: %v, want fs.ErrNotExist", err)
	}
}
