package images

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"regexp"
	"strings"
	"sync"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// buildChecks check images built from a Dockerfile.
func buildChecks() []suite.Check {
	return []suite.Check{
		{Name: "an image has what its Dockerfile says", Run: checkBuildContent},
		{Name: "a working directory that the image lacks is made", Run: checkMissingWorkDir},
		{Name: "the directories of an image's VOLUME are there, and can be written to", Run: checkVolumes},
		{Name: "a USER who is not in the image makes no environment", Run: checkMissingUser},
		{Name: "the same content gives the same image and is built once", Run: checkBuildOnce},
		{Name: "changed content gives another image", Run: checkBuildChanged},
		{Name: "contexts that differ only in the contents of files are not confused", Run: checkBuildAlike},
		{Name: "what .dockerignore names is no part of the content", Run: checkBuildIgnore},
		{Name: "without cache an image is built again", Run: checkBuildNoCache},
		{Name: "build arguments are part of the content", Run: checkBuildArgs},
		{Name: "two builds of the same content at once build once", Run: checkBuildAtOnce},
		{Name: "any name makes a reference", Run: checkBuildNames},
		{Name: "a failed build reports its last output", Run: checkBuildFails},
		{Name: "a context without a sound Dockerfile fails to build", Run: checkBuildUnsound},
		{Name: "a build that is cancelled ends", Run: checkBuildCancelled},
	}
}

// lines collects progress.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// stamped returns a context that was never built before. /stamp in the image differs for each
// build, and the progress of the build shows "made-" with the same number.
func stamped(s *suite.Scene) map[string]string {
	// The command differs, too: a provider may share the layers of equal commands, which other
	// checks build again.
	return map[string]string{"Dockerfile": s.From() + `RUN : ` + rand.Text() + `; date +%s%N > /stamp; echo "made-$(cat /stamp)"
`}
}

var madeLine = regexp.MustCompile(`made-\d+`)

// inImage returns the output of a script in a new environment of this image.
func inImage(s *suite.Scene, ref, script string) string {
	s.Helper()
	env := s.Create(func(o *environment.CreateOptions) { o.Image = ref })
	defer func() { _ = env.Destroy(s.Ctx) }()
	return env.Run(script)
}

func checkBuildContent(s *suite.Scene) {
	ref := s.Build(map[string]string{
		"Dockerfile": s.From() + `ENV ONE=1 TWO="two words"
RUN mkdir /made && \
    echo "made with $TWO" > /made/file
WORKDIR /work/dir
COPY data/ ./data/
COPY one.txt /copied.txt
RUN cp /copied.txt here && chmod 640 here
`,
		"one.txt": "one\n", "data/a": "a\n", "data/sub/b": "b\n", "left-out": "x",
	})
	s.Equal("in the image", inImage(s, ref, `pwd; echo "$ONE $TWO"; cat /made/file data/a data/sub/b here; stat -c %a here; ls`),
		"/work/dir\n1 two words\nmade with two words\na\nb\none\n640\ndata\nhere\n")
}

func checkVolumes(s *suite.Scene) {
	env := s.Create(suite.On(s.Build(map[string]string{"Dockerfile": s.From() + "VOLUME [\"/data\", \"/srv/deep/er\"]\n"})))
	s.Equal("the directories", env.Run("cd / && for d in data srv/deep/er; do [ -d $d ] && echo written >$d/f && cat $d/f; done"), "written\nwritten\n")
}

func checkMissingUser(s *suite.Scene) {
	ref := s.Build(map[string]string{"Dockerfile": s.From() + "USER no-such-user\n"})
	env, err := s.Provider.CreateEnvironment(s.Ctx, environment.CreateOptions{Image: ref, Labels: s.Labels})
	if err == nil {
		_ = env.Destroy(s.Ctx)
	}
	s.WantKind("CreateEnvironment", err, environment.KindStart)
}

// checkMissingWorkDir builds an image whose configuration names a directory that its file system
// does not have.
func checkMissingWorkDir(s *suite.Scene) {
	ref := s.Build(map[string]string{"Dockerfile": s.From() + "RUN mkdir /real && ln -s real /link\nWORKDIR /link/work/dir\nRUN rm -r /real\nUSER nobody\n"})
	s.Equal("in the image", inImage(s, ref, "pwd -P; stat -c '%a %u %g' /real /real/work /real/work/dir"), "/real/work/dir\n755 0 0\n755 0 0\n755 0 0\n")
}

func checkBuildOnce(s *suite.Scene) {
	content := stamped(s)
	first := s.Build(content)
	var progress lines
	second := s.Build(content, func(o *environment.BuildOptions) { o.Progress = progress.add })
	if first != second || first == "" {
		s.Errorf("references %q and %q", first, second)
	}
	if strings.Contains(progress.String(), "/stamp") || madeLine.MatchString(progress.String()) {
		s.Errorf("the second time was a build:\n%s", progress.String())
	}
	s.Equal("the image", inImage(s, second, "cat /stamp"), inImage(s, first, "cat /stamp"))
	if third, err := s.NewProvider().BuildImage(s.Ctx, environment.BuildOptions{Context: suite.Files(content), Name: "environmenttest"}); third != first {
		s.Errorf("another provider built %q (%v), want %q", third, err, first)
	}
}

func checkBuildChanged(s *suite.Scene) {
	tree := func(name, data string, mode fs.FileMode) fs.FS {
		return fstest.MapFS{
			"Dockerfile": {Data: []byte(s.From() + "COPY . /ctx/\n"), Mode: 0o644},
			name:         {Data: []byte(data), Mode: mode},
		}
	}
	seen := map[string]string{}
	for what, context := range map[string]fs.FS{
		"one":             tree("file", "one", 0o644),
		"other data":      tree("file", "two", 0o644),
		"other name":      tree("file2", "one", 0o644),
		"other mode":      tree("file", "one", 0o755),
		"other directory": tree("d/file", "one", 0o644),
	} {
		ref, err := s.BuildWith(s.Ctx, environment.BuildOptions{Context: context, Name: "environmenttest"})
		if err != nil {
			s.Fatalf("%s: %v", what, err)
		}
		if before, ok := seen[ref]; ok {
			s.Errorf("%s and %s have the same reference %s", what, before, ref)
		}
		seen[ref] = what
	}
	again, err := s.BuildWith(s.Ctx, environment.BuildOptions{Context: tree("file", "one", 0o644), Name: "environmenttest"})
	if err != nil || seen[again] != "one" {
		s.Errorf("the first content again: %q (%q), %v", again, seen[again], err)
	}
}

// checkBuildAlike builds contexts with equal names, sizes and times, by which builders recognise
// files.
func checkBuildAlike(s *suite.Scene) {
	stamp := rand.Text()
	refs := map[string]string{}
	for _, word := range []string{"one", "two"} {
		refs[word] = s.Build(map[string]string{
			"Dockerfile": s.From() + "COPY word /copied\nRUN echo " + word + stamp + " >/said\n",
			"word":       word + stamp + "\n",
		})
	}
	for word, ref := range refs {
		want := word + stamp + "\n"
		s.Equal("in the image "+word, inImage(s, ref, "cat /copied /said"), want+want)
	}
}

func checkBuildIgnore(s *suite.Scene) {
	content := map[string]string{
		"Dockerfile":    s.From() + "COPY . /ctx/\n",
		".dockerignore": "*.log\nsecret/\n!keep.log\n",
		"a":             "a", "x.log": "1", "keep.log": "1", "secret/s": "1",
	}
	first := s.Build(content)
	content["x.log"], content["secret/t"] = "2", "2"
	if second := s.Build(content); second != first {
		s.Errorf("references %q and %q differ by ignored files", first, second)
	}
	s.Equal("in the image", inImage(s, first, "cd /ctx; find . -type f -not -name '.docker*' -not -name Dockerfile | sort"), "./a\n./keep.log\n")
	content["keep.log"] = "2"
	if third := s.Build(content); third == first {
		s.Error("a file that is not ignored was changed, and the reference is the same")
	}
}

func checkBuildNoCache(s *suite.Scene) {
	content := stamped(s)
	first := inImage(s, s.Build(content), "cat /stamp")
	again := s.Build(content, func(o *environment.BuildOptions) { o.NoCache = true })
	if second := inImage(s, again, "cat /stamp"); second == first {
		s.Errorf("the image was not built again: both have the stamp %q", first)
	}
}

func checkBuildArgs(s *suite.Scene) {
	content := map[string]string{"Dockerfile": s.From() + "ARG WHO=nobody\nRUN echo hello $WHO > /hello\n"}
	with := func(who string) string {
		return s.Build(content, func(o *environment.BuildOptions) { o.Args = map[string]string{"WHO": who} })
	}
	none, ann, bob := s.Build(content), with("ann"), with("bob bob")
	if none == ann || ann == bob {
		s.Errorf("references %q, %q, %q", none, ann, bob)
	}
	s.Equal("in the images", inImage(s, none, "cat /hello")+inImage(s, ann, "cat /hello")+inImage(s, bob, "cat /hello"),
		"hello nobody\nhello ann\nhello bob bob\n")
}

// checkBuildAtOnce builds with two providers, like two processes.
func checkBuildAtOnce(s *suite.Scene) {
	content := stamped(s)
	var progress lines
	refs, errs := make([]string, 4), make([]error, 4)
	var all sync.WaitGroup
	providers := []environment.Provider{s.Provider, s.NewProvider()}
	for i := range refs {
		all.Go(func() {
			refs[i], errs[i] = providers[i%2].BuildImage(s.Ctx, environment.BuildOptions{
				Context: suite.Files(content), Name: "environmenttest", Progress: progress.add})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
	s.ForgetLater(refs[0])
	builds := map[string]bool{}
	for _, made := range madeLine.FindAllString(progress.String(), -1) {
		builds[made] = true
	}
	if len(builds) > 1 {
		s.Errorf("built %d times: %v", len(builds), builds)
	}
	for _, ref := range refs {
		s.Equal("reference", ref, refs[0])
	}
}

func checkBuildNames(s *suite.Scene) {
	content := map[string]string{"Dockerfile": s.From()}
	for _, name := range []string{"", "task", "Org/My Task: näme \U0001F680", "-._a__b", strings.Repeat("long", 80), "../../up", "a//b"} {
		ref := s.Build(content, func(o *environment.BuildOptions) { o.Name = name })
		s.Equal("in "+ref, inImage(s, ref, "echo fine"), "fine\n")
	}
}

func checkBuildFails(s *suite.Scene) {
	_, err := s.BuildWith(s.Ctx, environment.BuildOptions{Name: "environmenttest", Context: suite.Files(map[string]string{
		"Dockerfile": s.From() + "RUN echo before\nRUN echo broken because $((6*7)); echo on stderr $((7*7)) >&2; exit 7\nRUN echo after\n",
	})})
	s.WantKind("BuildImage", err, environment.KindBuild)
	if environment.IsTransient(err) {
		s.Errorf("transient: %v", err)
	}
	var e *environment.Error
	if !errors.As(err, &e) || !strings.Contains(e.Output, "broken because 42") || !strings.Contains(e.Output, "on stderr 49") {
		s.Errorf("Output lacks the printed text: %+v", e)
	}
}

func checkBuildUnsound(s *suite.Scene) {
	for what, content := range map[string]map[string]string{
		"no Dockerfile":          {"readme": "x"},
		"an empty Dockerfile":    {"Dockerfile": "\n# nothing\n"},
		"an unknown instruction": {"Dockerfile": s.From() + "RUNN true\n"},
		"no base":                {"Dockerfile": "RUN true\n"},
		"a missing file":         {"Dockerfile": s.From() + "COPY not-there /x\n"},
	} {
		_, err := s.BuildWith(s.Ctx, environment.BuildOptions{Name: "environmenttest", Context: suite.Files(content)})
		s.WantKind(what, err, environment.KindBuild)
	}
}

func checkBuildCancelled(s *suite.Scene) {
	ctx, cancel := context.WithTimeout(s.Ctx, 3*time.Second)
	defer cancel()
	nonce := rand.Text()
	content := suite.Files(map[string]string{"Dockerfile": s.From() + "RUN echo " + nonce + "; sleep 3600\n"})
	_, err := s.BuildWith(ctx, environment.BuildOptions{Name: "environmenttest", Context: content})
	if !errors.Is(err, context.DeadlineExceeded) || environment.IsTransient(err) {
		s.Errorf("error %v (transient: %v), want %v", err, environment.IsTransient(err), context.DeadlineExceeded)
	}
	s.Equal("the next build", inImage(s, s.Build(map[string]string{"Dockerfile": s.From() + "# " + nonce + "\n"}), "echo fine"), "fine\n")
}
