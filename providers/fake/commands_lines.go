package fake

import (
	"io"
	"slices"
	"strconv"
	"strings"
)

// lineCommands rearrange lines.
var lineCommands = map[string]func(*command) int{"sort": sortLines, "uniq": uniq, "cut": cut}

func sortLines(c *command) int {
	flags, err := c.options("nru", "numeric-sort=n", "reverse=r", "unique=u")
	if err != nil {
		return c.usage("%v", err)
	}
	var all []string
	code := c.each(c.args, func(_ string, r io.Reader) error {
		return c.lines(r, func(line string) bool { all = append(all, strings.TrimSuffix(line, "\n")); return true })
	})
	slices.SortStableFunc(all, func(a, b string) int {
		order := strings.Compare(a, b)
		if flags['n'] != "" {
			if x, y := leadingNumber(a), leadingNumber(b); x < y {
				order = -1
			} else if x > y {
				order = 1
			}
		}
		if flags['r'] != "" {
			return -order
		}
		return order
	})
	if flags['u'] != "" {
		all = slices.Compact(all)
	}
	for _, line := range all {
		c.print("%s\n", line)
	}
	return code
}

func leadingNumber(s string) float64 {
	s = strings.TrimSpace(s)
	end := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune("0123456789.-", r) })
	if end >= 0 {
		s = s[:end]
	}
	n, _ := strconv.ParseFloat(s, 64)
	return n
}

func uniq(c *command) int {
	flags, err := c.options("c")
	if err != nil {
		return c.usage("%v", err)
	}
	return c.each(c.args, func(_ string, r io.Reader) error {
		last, count := "", 0
		flush := func() {
			switch {
			case count > 0 && flags['c'] != "":
				c.print("%7d %s\n", count, last)
			case count > 0:
				c.print("%s\n", last)
			}
		}
		err := c.lines(r, func(line string) bool {
			line = strings.TrimSuffix(line, "\n")
			if line != last {
				flush()
				last, count = line, 0
			}
			count++
			return true
		})
		flush()
		return err
	})
}

// cut knows single fields and characters: cut -d: -f1, cut -c1-5.
func cut(c *command) int {
	flags, err := c.options("d:f:c:")
	if err != nil {
		return c.usage("%v", err)
	}
	first, last, isRange := strings.Cut(flags['f']+flags['c'], "-")
	from, err := strconv.Atoi(first)
	to := from
	if isRange {
		to, err = strconv.Atoi(last)
	}
	if err != nil || from < 1 {
		return c.usage("want -f N, -c N or a range")
	}
	delimiter := flags['d']
	if delimiter == "" {
		delimiter = "\t"
	}
	return c.each(c.args, func(_ string, r io.Reader) error {
		return c.lines(r, func(line string) bool {
			line = strings.TrimSuffix(line, "\n")
			parts, joint := strings.Split(line, delimiter), delimiter
			if flags['c'] != "" {
				parts, joint = strings.Split(line, ""), ""
			} else if len(parts) == 1 {
				return c.print("%s\n", line)
			}
			return c.print("%s\n", strings.Join(parts[min(from-1, len(parts)):min(to, len(parts))], joint))
		})
	})
}
