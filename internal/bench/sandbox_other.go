//go:build !linux

package main

import (
	"context"
	"fmt"
	"io"
)

const childSandboxes = "sandboxes"

func (b *bench) sandbox(context.Context) error {
	return fmt.Errorf("%w: sandboxes need Linux", errUnmeasurable)
}

func childTrialsInSandboxes(context.Context, string, io.Writer) error { return errUnmeasurable }
