package environmenttest

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
)

// buildChecks check images built from a Dockerfile.
func buildChecks() []check {
	return []check{
		{"an image has what its Dockerfile says", checkBuildContent},
		{"a working directory that the image lacks is made", checkMissingWorkDir},
		{"the directories of an image's VOLUME are there, and can be written to", checkVolumes},
		{"a USER who is not in the image makes no environment", checkMissingUser},
		{"the same content gives the same image and is built once", checkBuildOnce},
		{"changed content gives another image", checkBuildChanged},
		{"contexts that differ in nothing but what is in their files are not confused", checkBuildAlike},
		{"what .dockerignore names is no part of the content", checkBuildIgnore},
		{"without cache an image is built again", checkBuildNoCache},
		{"build arguments are part of the content", checkBuildArgs},
		{"two builds of the same content at once build once", checkBuildAtOnce},
		{"any name makes a reference", checkBuildNames},
		{"a failed build reports its last output", checkBuildFails},
		{"a context without a sound Dockerfile fails to build", checkBuildUnsound},
		{"a build that is cancelled ends", checkBuildCancelled},
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

// build builds an image and requires success.
func (s *scene) build(content map[string]string, change ...func(*environment.BuildOptions)) string {
	s.Helper()
	opts := environment.BuildOptions{Context: files(content), Name: "environmenttest"}
	for _, c := range change {
		c(&opts)
	}
	ref, err := s.buildWith(s.ctx, opts)
	if err != nil {
		s.Fatalf("BuildImage: %v", err)
	}
	return ref
}

func (s *scene) buildWith(ctx context.Context, opts environment.BuildOptions) (ref string, err error) {
	s.Helper()
	s.within("BuildImage", func() { ref, err = s.provider.BuildImage(ctx, opts) })
	s.forgetLater(ref)
	return ref, err
}

// from returns the beginning of a Dockerfile for this check only, so concurrent checks neither
// build nor remove its images.
func (s *scene) from() string { return "FROM " + s.opts.Image + "\n# " + s.labels.Job + "\n" }

func (s *scene) forgetLater(ref string) {
	if ref != "" && s.opts.Forget != nil {
		s.Cleanup(func() { s.opts.Forget(s.TB, ref) })
	}
}

// stamped returns a context that was never built before. /stamp in the image differs for each
// build, and the progress of the build shows "made-" with the same number.
func (s *scene) stamped() map[string]string {
	// The command differs, too: a provider may share the layers of equal commands, which other
	// checks build again.
	return map[string]string{"Dockerfile": s.from() + `RUN : ` + rand.Text() + `; date +%s%N > /stamp; echo "made-$(cat /stamp)"
`}
}

var madeLine = regexp.MustCompile(`made-\d+`)

// inImage returns the output of a script in a new environment of this image.
func (s *scene) inImage(ref, script string) string {
	s.Helper()
	env := s.create(func(o *environment.CreateOptions) { o.Image = ref })
	defer func() { _ = env.Destroy(s.ctx) }()
	return env.run(script)
}

func checkBuildContent(s *scene) {
	ref := s.build(map[string]string{
		"Dockerfile": s.from() + `ENV ONE=1 TWO="two words"
RUN mkdir /made && \
    echo "made with $TWO" > /made/file
WORKDIR /work/dir
COPY data/ ./data/
COPY one.txt /copied.txt
RUN cp /copied.txt here && chmod 640 here
`,
		"one.txt": "one\n", "data/a": "a\n", "data/sub/b": "b\n", "left-out": "x",
	})
	s.equal("in the image", s.inImage(ref, `pwd; echo "$ONE $TWO"; cat /made/file data/a data/sub/b here; stat -c %a here; ls`),
		"/work/dir\n1 two words\nmade with two words\na\nb\none\n640\ndata\nhere\n")
}

func checkVolumes(s *scene) {
	env := s.create(on(s.build(map[string]string{"Dockerfile": s.from() + "VOLUME [\"/data\", \"/srv/deep/er\"]\n"})))
	s.equal("the directories", env.run("cd / && for d in data srv/deep/er; do [ -d $d ] && echo written >$d/f && cat $d/f; done"), "written\nwritten\n")
}

func checkMissingUser(s *scene) {
	ref := s.build(map[string]string{"Dockerfile": s.from() + "USER no-such-user\n"})
	env, err := s.provider.CreateEnvironment(s.ctx, environment.CreateOptions{Image: ref, Labels: s.labels})
	if err == nil {
		_ = env.Destroy(s.ctx)
	}
	s.wantKind("CreateEnvironment", err, environment.KindStart)
}

// checkMissingWorkDir builds an image whose configuration names a directory that its file system
// does not have.
func checkMissingWorkDir(s *scene) {
	ref := s.build(map[string]string{"Dockerfile": s.from() + "RUN mkdir /real && ln -s real /link\nWORKDIR /link/work/dir\nRUN rm -r /real\nUSER nobody\n"})
	s.equal("in the image", s.inImage(ref, "pwd -P; stat -c '%a %u %g' /real /real/work /real/work/dir"), "/real/work/dir\n755 0 0\n755 0 0\n755 0 0\n")
}

func checkBuildOnce(s *scene) {
	content := s.stamped()
	first := s.build(content)
	var progress lines
	second := s.build(content, func(o *environment.BuildOptions) { o.Progress = progress.add })
	if first != second || first == "" {
		s.Errorf("references %q and %q", first, second)
	}
	if strings.Contains(progress.String(), "/stamp") || madeLine.MatchString(progress.String()) {
		s.Errorf("the second time was a build:\n%s", progress.String())
	}
	s.equal("the image", s.inImage(second, "cat /stamp"), s.inImage(first, "cat /stamp"))
	if third, err := s.newProvider().BuildImage(s.ctx, environment.BuildOptions{Context: files(content), Name: "environmenttest"}); third != first {
		s.Errorf("another provider built %q (%v), want %q", third, err, first)
	}
}

func checkBuildChanged(s *scene) {
	tree := func(name, data string, mode fs.FileMode) fs.FS {
		return fstest.MapFS{
			"Dockerfile": {Data: []byte(s.from() + "COPY . /ctx/\n"), Mode: 0o644},
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
		ref, err := s.buildWith(s.ctx, environment.BuildOptions{Context: context, Name: "environmenttest"})
		if err != nil {
			s.Fatalf("%s: %v", what, err)
		}
		if before, ok := seen[ref]; ok {
			s.Errorf("%s and %s have the same reference %s", what, before, ref)
		}
		seen[ref] = what
	}
	again, err := s.buildWith(s.ctx, environment.BuildOptions{Context: tree("file", "one", 0o644), Name: "environmenttest"})
	if err != nil || seen[again] != "one" {
		s.Errorf("the first content again: %q (%q), %v", again, seen[again], err)
	}
}

// checkBuildAlike builds contexts with equal names, sizes and times, by which builders recognise
// files.
func checkBuildAlike(s *scene) {
	stamp := rand.Text()
	refs := map[string]string{}
	for _, word := range []string{"one", "two"} {
		refs[word] = s.build(map[string]string{
			"Dockerfile": s.from() + "COPY word /copied\nRUN echo " + word + stamp + " >/said\n",
			"word":       word + stamp + "\n",
		})
	}
	for word, ref := range refs {
		want := word + stamp + "\n"
		s.equal("in the image "+word, s.inImage(ref, "cat /copied /said"), want+want)
	}
}

func checkBuildIgnore(s *scene) {
	content := map[string]string{
		"Dockerfile":    s.from() + "COPY . /ctx/\n",
		".dockerignore": "*.log\nsecret/\n!keep.log\n",
		"a":             "a", "x.log": "1", "keep.log": "1", "secret/s": "1",
	}
	first := s.build(content)
	content["x.log"], content["secret/t"] = "2", "2"
	if second := s.build(content); second != first {
		s.Errorf("references %q and %q differ by what is ignored", first, second)
	}
	s.equal("in the image", s.inImage(first, "cd /ctx; find . -type f -not -name '.docker*' -not -name Dockerfile | sort"), "./a\n./keep.log\n")
	content["keep.log"] = "2"
	if third := s.build(content); third == first {
		s.Error("a file that is not ignored was changed, and the reference is the same")
	}
}

func checkBuildNoCache(s *scene) {
	content := s.stamped()
	first := s.inImage(s.build(content), "cat /stamp")
	again := s.build(content, func(o *environment.BuildOptions) { o.NoCache = true })
	if second := s.inImage(again, "cat /stamp"); second == first {
		s.Errorf("the image was not built again: both have the stamp %q", first)
	}
}

func checkBuildArgs(s *scene) {
	content := map[string]string{"Dockerfile": s.from() + "ARG WHO=nobody\nRUN echo hello $WHO > /hello\n"}
	with := func(who string) string {
		return s.build(content, func(o *environment.BuildOptions) { o.Args = map[string]string{"WHO": who} })
	}
	none, ann, bob := s.build(content), with("ann"), with("bob bob")
	if none == ann || ann == bob {
		s.Errorf("references %q, %q, %q", none, ann, bob)
	}
	s.equal("in the images", s.inImage(none, "cat /hello")+s.inImage(ann, "cat /hello")+s.inImage(bob, "cat /hello"),
		"hello nobody\nhello ann\nhello bob bob\n")
}

// checkBuildAtOnce builds with two providers, like two processes.
func checkBuildAtOnce(s *scene) {
	content := s.stamped()
	var progress lines
	refs, errs := make([]string, 4), make([]error, 4)
	var all sync.WaitGroup
	providers := []environment.Provider{s.provider, s.newProvider()}
	for i := range refs {
		all.Go(func() {
			refs[i], errs[i] = providers[i%2].BuildImage(s.ctx, environment.BuildOptions{
				Context: files(content), Name: "environmenttest", Progress: progress.add})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
	s.forgetLater(refs[0])
	builds := map[string]bool{}
	for _, made := range madeLine.FindAllString(progress.String(), -1) {
		builds[made] = true
	}
	if len(builds) > 1 {
		s.Errorf("built %d times: %v", len(builds), builds)
	}
	for _, ref := range refs {
		s.equal("reference", ref, refs[0])
	}
}

func checkBuildNames(s *scene) {
	content := map[string]string{"Dockerfile": s.from()}
	for _, name := range []string{"", "task", "Org/My Task: näme \U0001F680", "-._a__b", strings.Repeat("long", 80), "../../up", "a//b"} {
		ref := s.build(content, func(o *environment.BuildOptions) { o.Name = name })
		s.equal("in "+ref, s.inImage(ref, "echo fine"), "fine\n")
	}
}

func checkBuildFails(s *scene) {
	_, err := s.buildWith(s.ctx, environment.BuildOptions{Name: "environmenttest", Context: files(map[string]string{
		"Dockerfile": s.from() + "RUN echo before\nRUN echo broken because $((6*7)); echo on stderr $((7*7)) >&2; exit 7\nRUN echo after\n",
	})})
	s.wantKind("BuildImage", err, environment.KindBuild)
	if environment.IsTransient(err) {
		s.Errorf("transient: %v", err)
	}
	var e *environment.Error
	if !errors.As(err, &e) || !strings.Contains(e.Output, "broken because 42") || !strings.Contains(e.Output, "on stderr 49") {
		s.Errorf("Output does not hold what was printed: %+v", e)
	}
}

func checkBuildUnsound(s *scene) {
	for what, content := range map[string]map[string]string{
		"no Dockerfile":          {"readme": "x"},
		"an empty Dockerfile":    {"Dockerfile": "\n# nothing\n"},
		"an unknown instruction": {"Dockerfile": s.from() + "RUNN true\n"},
		"no base":                {"Dockerfile": "RUN true\n"},
		"a missing file":         {"Dockerfile": s.from() + "COPY not-there /x\n"},
	} {
		_, err := s.buildWith(s.ctx, environment.BuildOptions{Name: "environmenttest", Context: files(content)})
		s.wantKind(what, err, environment.KindBuild)
	}
}

func checkBuildCancelled(s *scene) {
	ctx, cancel := context.WithTimeout(s.ctx, 3*time.Second)
	defer cancel()
	nonce := rand.Text()
	content := files(map[string]string{"Dockerfile": s.from() + "RUN echo " + nonce + "; sleep 3600\n"})
	_, err := s.buildWith(ctx, environment.BuildOptions{Name: "environmenttest", Context: content})
	if !errors.Is(err, context.DeadlineExceeded) || environment.IsTransient(err) {
		s.Errorf("error %v (transient: %v), want %v", err, environment.IsTransient(err), context.DeadlineExceeded)
	}
	s.equal("the next build", s.inImage(s.build(map[string]string{"Dockerfile": s.from() + "# " + nonce + "\n"}), "echo fine"), "fine\n")
}
