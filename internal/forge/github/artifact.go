package github

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	gh "github.com/google/go-github/v66/github"

	"github.com/org/rollout-action/internal/core/result"
)

// errBadArtifact means that an artifact exists but cannot be used.
var errBadArtifact = errors.New("the artifact cannot be used")

// limits bound the sizes of an artifact, in bytes.
type limits struct {
	zip    int64
	result int64
}

// usualLimits allow jobs of some hundred thousand trials, at some 250 bytes each.
var usualLimits = limits{zip: 64 << 20, result: 256 << 20}

// downloadTimeout limits the transfer of one artifact.
const downloadTimeout = 5 * time.Minute

// fetchResult downloads an artifact, writes its job's result.json to dir and returns the path.
func (c *Client) fetchResult(ctx context.Context, owner, repo string, a *gh.Artifact, dir string) (string, error) {
	if size := a.GetSizeInBytes(); size > c.limits.zip {
		return "", fmt.Errorf("%w: it has %d MiB, more than %d", errBadArtifact, size>>20, c.limits.zip>>20)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	file, err := os.CreateTemp(dir, ".artifact-*.zip")
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if err := c.download(ctx, owner, repo, a.GetID(), file); err != nil {
		return "", err
	}
	return extractResult(file, dir, c.limits.result)
}

// download writes the artifact's zip to file. The API returns a storage URL that is valid for a
// minute, so each try asks for a new one.
func (c *Client) download(ctx context.Context, owner, repo string, id int64, file *os.File) error {
	for try := 1; ; try++ {
		address, err := c.artifactAddress(ctx, owner, repo, id)
		if err != nil {
			return err // the client has retried
		}
		err = c.transfer(ctx, address, file)
		if err == nil || !uncertain(err) || try == maxTries {
			return err
		}
		if err := c.sleep(ctx, firstBackoff<<(try-1)); err != nil {
			return err
		}
	}
}

// artifactAddress returns the artifact's storage URL. It is secret while it is valid.
func (c *Client) artifactAddress(ctx context.Context, owner, repo string, id int64) (*url.URL, error) {
	address, resp, err := c.api.Actions.DownloadArtifact(ctx, owner, repo, id, 3)
	switch {
	case err != nil && resp != nil && resp.Response != nil && resp.StatusCode != http.StatusFound:
		return nil, &APIError{Status: resp.StatusCode, Message: "when asked for the artifact"}
	case err != nil:
		return nil, c.explain(&url.Error{Op: http.MethodGet, Err: err})
	case address.Host == "" || address.Scheme != "https" && address.Scheme != c.api.BaseURL.Scheme:
		return nil, fmt.Errorf("%w: its address is not an https one", errBadArtifact)
	}
	return address, nil
}

// transfer downloads the artifact without the token: the URL is the permission.
func (c *Client) transfer(ctx context.Context, address *url.URL, file *os.File) error {
	if err := errors.Join(file.Truncate(0), rewind(file)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("%w: its address cannot be used", errBadArtifact)
	}
	req.Header.Set("User-Agent", userAgent)
	resp, err := c.storage.Do(req)
	if err != nil {
		return c.explain(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= http.StatusInternalServerError:
		return &APIError{Status: resp.StatusCode, Message: "when the artifact was fetched"}
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%w: its storage answered %d", errBadArtifact, resp.StatusCode)
	}
	n, err := io.Copy(file, io.LimitReader(resp.Body, c.limits.zip+1))
	if err != nil {
		return c.explain(&url.Error{Op: http.MethodGet, Err: err})
	}
	if n > c.limits.zip {
		return fmt.Errorf("%w: it is larger than %d MiB", errBadArtifact, c.limits.zip>>20)
	}
	return nil
}

func rewind(file *os.File) error {
	_, err := file.Seek(0, io.SeekStart)
	return err
}

// extractResult writes the job's result.json in the zip to dir. Names in the zip never become
// paths: the file is always dir/result.json.
func extractResult(file *os.File, dir string, limit int64) (string, error) {
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	archive, err := zip.NewReader(file, info.Size())
	if err != nil {
		return "", fmt.Errorf("%w: it is not a zip file (%v)", errBadArtifact, err) //nolint:errorlint // the cause is of no use to callers
	}
	entry, err := chooseResult(archive.File)
	if err != nil {
		return "", err
	}
	target := filepath.Join(dir, result.ResultFile)
	if err := extract(entry, target, limit); err != nil {
		return "", err
	}
	return target, extractVerdict(archive.File, path.Dir(entry.Name), dir)
}

// extractVerdict writes the verdict.json that is in the zip's directory from to dir, and removes an
// earlier one there. Artifacts of earlier versions have none, and one that cannot be used counts as
// none.
func extractVerdict(files []*zip.File, from, dir string) error {
	target := filepath.Join(dir, result.VerdictFile)
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range files {
		if f.Name == path.Join(from, result.VerdictFile) && f.Mode().IsRegular() {
			if err := extract(f, target, result.MaxVerdictFile); !errors.Is(err, errBadArtifact) {
				return err
			}
		}
	}
	return nil
}

// extract writes a file of a zip to target.
func extract(entry *zip.File, target string, limit int64) error {
	in, err := entry.Open()
	if err != nil {
		return fmt.Errorf("%w: %v", errBadArtifact, err) //nolint:errorlint // the cause is of no use to callers
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(target), ".extracted-*.json")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	if err := copyBounded(out, in, limit); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(out.Name(), target)
}

// copyBounded copies at most limit bytes, whatever size the zip claims.
func copyBounded(out io.Writer, in io.Reader, limit int64) error {
	var broken error
	n, err := io.Copy(out, io.LimitReader(readerFunc(func(p []byte) (int, error) {
		n, err := in.Read(p)
		if err != nil && !errors.Is(err, io.EOF) {
			broken = err
		}
		return n, err
	}), limit+1))
	switch {
	case broken != nil:
		return fmt.Errorf("%w: %v", errBadArtifact, broken) //nolint:errorlint // the cause is of no use to callers
	case err != nil:
		return err
	case n > limit:
		return fmt.Errorf("%w: its %s is larger than %d MiB", errBadArtifact, result.ResultFile, limit>>20)
	}
	return nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// chooseResult returns the job's result.json: the one nearest to the top, if it is unique there.
// Deeper ones may be those of trials.
func chooseResult(files []*zip.File) (*zip.File, error) {
	var chosen *zip.File
	best, count := 0, 0
	for _, f := range files {
		name := f.Name
		if path.Base(name) != result.ResultFile || !fs.ValidPath(name) || !f.Mode().IsRegular() {
			continue
		}
		switch depth := strings.Count(name, "/"); {
		case chosen == nil || depth < best:
			chosen, best, count = f, depth, 1
		case depth == best:
			count++
		}
	}
	switch {
	case chosen == nil:
		return nil, fmt.Errorf("%w: there is no %s in it", errBadArtifact, result.ResultFile)
	case count > 1:
		return nil, fmt.Errorf("%w: there are %d files %s in it, and it is unclear which is the job's", errBadArtifact, count, result.ResultFile)
	case best > 1:
		return nil, fmt.Errorf("%w: its only %s are too deep to be a job's", errBadArtifact, result.ResultFile)
	}
	return chosen, nil
}
