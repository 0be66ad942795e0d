package viewer

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/page"
)

// alignment is how far the beginning of a part of a file may move to begin a line, in bytes.
const alignment = 64 << 10

// trialFiles returns the files that a trial which runs writes, those of its steps too.
func (j *Job) trialFiles(dir string) []string {
	files := []string{dir + "/" + result.ResultFile, dir + "/" + result.TrajectoryFile, dir + "/" + result.ErrorFile}
	return append(files, report.RunLogs(j.input(), dir)...)
}

var errNoFile = &refusal{http.StatusNotFound, "There is no such file, or it is a link, or it cannot be read."}

// log answers with a part of a file as a page.
func (s *Server) log(w http.ResponseWriter, r *http.Request, name string, job *Job, file string) error {
	from, err := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
	if err != nil || from < 0 {
		from = 0
	}
	exact := r.URL.Query().Has("exact")
	f, size, err := report.Open(job.input(), file)
	if err != nil {
		return errNoFile
	}
	defer f.Close()
	dir := strings.Join(strings.SplitN(file, "/", 4)[:3], "/")
	version, live := job.stamp(file), ""
	if job.Running {
		if missing, err := job.missing(dir); err == nil && missing == page.Runs {
			live = version
		}
	}
	return s.write(w, r, version, live != "", func(w io.Writer) error {
		part, err := partOf(r.Context(), f, size, from, exact)
		if err != nil {
			return err
		}
		return s.site.WriteLog(w, part, name, dir, file, live)
	})
}

// partOf reads a part of a file that begins at about from, in whole lines if they are not too long.
// It begins at from itself if exact is true, because another part ended there.
func partOf(ctx context.Context, f io.Reader, size, from int64, exact bool) (page.LogPart, error) {
	if from >= size {
		from, exact = max(size-page.LogPage, 0), false
	}
	at := max(from-1, 0) // the byte before tells whether a line begins
	if err := skip(ctx, f, at); err != nil {
		return page.LogPart{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, page.LogPage+alignment))
	if err != nil {
		return page.LogPart{}, err
	}
	if from > 0 && len(text) > 0 {
		n := bytes.IndexByte(text[:min(len(text), alignment)], '\n') + 1
		if exact || n == 0 || n == len(text) {
			n = 1
		}
		text, at = text[n:], at+int64(n)
	}
	if len(text) > page.LogPage {
		text = text[:page.LogPage]
	}
	if at+int64(len(text)) < size {
		if n := bytes.LastIndexByte(text, '\n'); n >= 0 {
			text = text[:n+1]
		}
	}
	return page.LogPart{Text: text, From: at, Size: max(size, at+int64(len(text)))}, nil
}

// skip moves n bytes ahead. A file in an archive has to be read so far.
func skip(ctx context.Context, f io.Reader, n int64) error {
	if seeker, ok := f.(io.Seeker); ok {
		_, err := seeker.Seek(n, io.SeekStart)
		return err
	}
	const step = 4 << 20
	for n > 0 && ctx.Err() == nil {
		read, err := io.CopyN(io.Discard, f, min(n, step))
		if n -= read; err != nil {
			return err
		}
	}
	return ctx.Err()
}

// textEndings are the name endings of files that are sent as text. No file is sent with a type that
// browsers would execute.
var textEndings = []string{".txt", ".log", ".json", ".jsonl", ".md", ".csv"}

// raw answers with a file as a download. The file is untrusted: browsers store it, and neither show
// nor run it.
func (s *Server) raw(w http.ResponseWriter, r *http.Request, job *Job, file string) error {
	f, size, err := report.Open(job.input(), file)
	if err != nil {
		return errNoFile
	}
	defer f.Close()
	header, name := w.Header(), path.Base(file)
	kind := "application/octet-stream"
	if slices.Contains(textEndings, path.Ext(name)) {
		kind = "text/plain; charset=utf-8"
	}
	header.Set("Content-Type", kind)
	disposition := mime.FormatMediaType("attachment", map[string]string{"filename": name})
	if disposition == "" {
		disposition = "attachment"
	}
	header.Set("Content-Disposition", disposition)
	if seeker, ok := f.(io.ReadSeeker); ok {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		http.ServeContent(w, r, "", info.ModTime(), seeker)
		return nil
	}
	header.Set("Content-Length", strconv.FormatInt(size, 10))
	if r.Method != http.MethodHead {
		_, _ = io.Copy(w, f) // whoever asked may be gone; a torn archive ends the answer too early
	}
	return nil
}
