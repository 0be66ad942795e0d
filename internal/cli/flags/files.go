package flags

import (
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/reporters"
)

// Files are the flags that ask for reports: --report, and what the table of formats adds.
type Files struct {
	Formats reporters.Table
	asked   []string           // the values of --report
	paths   map[string]*string // of the formats with a flag, by the formats' names
	options reporters.Options
}

// Add adds the flags for formats; options also those about how they are written.
func (f *Files) Add(flags *pflag.FlagSet, formats reporters.Table, options bool) {
	f.Formats, f.paths = formats, map[string]*string{}
	flags.StringArrayVar(&f.asked, "report", nil, "write a report to a file, as in NAME=FILE; NAME alone prints it instead of the summary: "+formats.List()+" (repeatable)")
	Wants(flags, "report", "want NAME=FILE with "+formats.List())
	for _, format := range formats {
		if format.Flag != "" {
			f.paths[format.Name] = flags.String(format.Flag, "", format.About)
			if !format.Rare {
				markCommon(flags, format.Flag)
			}
		}
		for _, option := range format.Options {
			if options {
				flags.BoolVar(option.In(&f.options), option.Flag, false, option.About)
			}
		}
	}
}

// Parse returns the files to write, and the name of the format to print; "" is none.
func (f *Files) Parse() (files []reporting.ReportFile, printed string, err error) {
	for _, format := range f.Formats {
		if path := f.paths[format.Name]; path != nil && *path != "" {
			files = append(files, reporting.ReportFile{Format: format.Name, Path: *path})
		}
	}
	for _, text := range f.asked {
		name, path, err := f.Formats.ParseFile(text)
		switch {
		case err != nil:
			return nil, "", command.Usagef("--report: %s", untrusted.Line(err.Error()))
		case path != "":
			files = append(files, reporting.ReportFile{Format: name, Path: path})
		case printed != "":
			return nil, "", command.Usagef("--report %s and --report %s print two reports: name a file for one of them, as in %s=FILE", printed, name, name)
		default:
			printed = name
		}
	}
	return files, printed, nil
}

// ToPrint returns the format to print: that of --format, or of --report without a file. format is
// FormatText without --format.
func ToPrint(format, printed string) (string, error) {
	switch {
	case printed == "":
		return format, nil
	case format != FormatText:
		return "", command.Usagef("--format %s and --report %s print two reports: name a file for one of them, as in --report %s=FILE", untrusted.Line(format), printed, printed)
	}
	return printed, nil
}

// Printing returns how to print a job in a format; nil: as a summary.
func (f *Files) Printing(out io.Writer, format string) func(report.Input) error {
	if format == "" || format == FormatText {
		return nil
	}
	return func(in report.Input) error { return f.Formats.WriteJob(out, format, in, f.options) }
}

// FormatList returns the values of --format for a sentence.
func FormatList(formats reporters.Table) string {
	return strings.Join(append([]string{FormatText}, formats.Names()...), ", ")
}
