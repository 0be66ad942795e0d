package reporting

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/org/rollout-action/internal/app/host"
)

// TestTheLastReportOfAFileStays names one file in two ways. The first report, if it were written,
// would be finished last.
func TestTheLastReportOfAFileStays(t *testing.T) {
	dir := t.TempDir()
	last := make(chan struct{})
	files := []ReportFile{{Format: "first", Path: dir + "/./report"}, {Format: "second", Path: filepath.Join(dir, "report")}}
	err := WriteReports(host.Paths{}, files, func(w io.Writer, format string) error {
		if format == "first" {
			<-last
		} else {
			defer close(last)
		}
		_, err := io.WriteString(w, format)
		return err
	})
	if text, _ := os.ReadFile(files[1].Path); err != nil || string(text) != "second" {
		t.Errorf("%v: the file has the %s report", err, text)
	}
}
