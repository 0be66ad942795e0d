package cli

import (
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/reporters"
)

// reportFiles are the flags that ask for reports: --report, and what the table of formats adds.
type reportFiles struct {
	formats reporters.Table
	asked   []string           // the values of --report
	paths   map[string]*string // of the formats with a flag, by the formats' names
	options reporters.Options
}

// add adds the flags for formats; options also those about how they are written.
func (f *reportFiles) add(flags *pflag.FlagSet, formats reporters.Table, options bool) {
	f.formats, f.paths = formats, map[string]*string{}
	flags.StringArrayVar(&f.asked, "report", nil, "write a report to a file, as in NAME=FILE; NAME alone prints it instead of the summary: "+formats.List()+" (repeatable)")
	wants(flags, "report", "want NAME=FILE with "+formats.List())
	for _, format := range formats {
		if format.Flag != "" {
			f.paths[format.Name] = flags.String(format.Flag, "", format.About)
		}
		for _, option := range format.Options {
			if options {
				flags.BoolVar(option.In(&f.options), option.Flag, false, option.About)
			}
		}
	}
}

// parse returns the files to write, and the name of the format to print; "" is none.
func (f *reportFiles) parse() (files []app.ReportFile, printed string, err error) {
	for _, format := range f.formats {
		if path := f.paths[format.Name]; path != nil && *path != "" {
			files = append(files, app.ReportFile{Format: format.Name, Path: *path})
		}
	}
	for _, text := range f.asked {
		name, path, err := f.formats.ParseFile(text)
		switch {
		case err != nil:
			return nil, "", usage("--report: %s", clean(err.Error()))
		case path != "":
			files = append(files, app.ReportFile{Format: name, Path: path})
		case printed != "":
			return nil, "", usage("--report %s and --report %s print two reports: name a file for one of them, as in %s=FILE", printed, name, name)
		default:
			printed = name
		}
	}
	return files, printed, nil
}

// toPrint returns the format to print: that of --format, or of --report without a file. format is
// formatText without --format.
func toPrint(format, printed string) (string, error) {
	switch {
	case printed == "":
		return format, nil
	case format != formatText:
		return "", usage("--format %s and --report %s print two reports: name a file for one of them, as in --report %s=FILE", clean(format), printed, printed)
	}
	return printed, nil
}

// printing returns how to print a job in a format; nil: as a summary.
func (f *reportFiles) printing(out io.Writer, format string) func(report.Input) error {
	if format == "" || format == formatText {
		return nil
	}
	return func(in report.Input) error { return f.formats.WriteJob(out, format, in, f.options) }
}

// formatList returns the values of --format for a sentence.
func formatList(formats reporters.Table) string {
	return strings.Join(append([]string{formatText}, formats.Names()...), ", ")
}
