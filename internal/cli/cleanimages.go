package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/quantity"
)

// cleanImages removes images that were not used for age, and reports how much space they took.
func (v *invocation) cleanImages(ctx context.Context, provider environment.Provider, age time.Duration, dryRun bool) error {
	store, ok := environment.As[environment.ImageStore](provider)
	if !ok {
		return usage("--images: the provider %s keeps no images that Rollout could list and remove", provider.Name())
	}
	images, err := store.Images(ctx)
	if err != nil {
		return err
	}
	now := v.Now()
	doomed := job.Prunable(images, now.Add(-max(age, job.MinImageAge)))
	recent := 0
	if age < job.MinImageAge {
		recent = len(job.Prunable(images, now.Add(-age))) - len(doomed)
	}
	if !dryRun {
		doomed, err = job.RemoveImages(ctx, store, doomed)
	}
	v.printImages(doomed)
	verb := "removed"
	if dryRun {
		verb = "would remove"
	}
	fmt.Fprintf(v.Stdout, "%s %s%s\n", verb, plural.Count(len(doomed), "image"), taken(doomed))
	if recent > 0 {
		fmt.Fprintf(v.Stdout, "%s more stayed: used within the last hour, so a run may need what was to go\n", plural.Count(recent, "image"))
	}
	return err
}

func (v *invocation) printImages(images []environment.Image) {
	w := tabwriter.NewWriter(v.Stdout, 0, 0, 2, ' ', 0)
	for _, img := range images {
		size := "?"
		if img.Size >= 0 {
			size = quantity.Size(img.Size)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", clean(img.Name), size, img.Used.UTC().Format("2006-01-02 15:04"))
	}
	_ = w.Flush()
}

// taken returns how much space images take together, in words.
func taken(images []environment.Image) string {
	var sum int64
	unknown := 0
	for _, img := range images {
		if img.Size < 0 {
			unknown++
		}
		sum += max(0, img.Size)
	}
	switch {
	case len(images) == 0:
		return ""
	case unknown > 0:
		return fmt.Sprintf(", up to %s and what %d of unknown size took", quantity.Size(sum), unknown)
	}
	return ", up to " + quantity.Size(sum)
}

// parseAge reads a length of time: Go's durations, and whole days and weeks.
func parseAge(text string) (time.Duration, error) {
	for _, unit := range []struct {
		suffix string
		length time.Duration
	}{{"d", 24 * time.Hour}, {"w", 7 * 24 * time.Hour}} {
		number, ok := strings.CutSuffix(text, unit.suffix)
		if n, err := strconv.ParseUint(number, 10, 16); ok && err == nil && n <= 36500 {
			return time.Duration(n) * unit.length, nil
		}
	}
	age, err := time.ParseDuration(text)
	if err != nil || age < 0 {
		return 0, errors.New("give a length of time, such as 36h, 7d or 2w")
	}
	return age, nil
}
