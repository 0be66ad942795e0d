// Package deps pins modules until their users are committed; it goes away.
package deps

import (
	_ "github.com/docker/docker/client"
	_ "github.com/docker/docker/pkg/stdcopy"
	_ "github.com/gofrs/flock"
	_ "github.com/google/go-containerregistry/pkg/registry"
	_ "github.com/google/go-containerregistry/pkg/v1/remote"
	_ "github.com/invopop/jsonschema"
	_ "github.com/moby/buildkit/client"
	_ "github.com/moby/buildkit/session/filesync"
	_ "github.com/moby/buildkit/util/progress/progressui"
	_ "github.com/moby/patternmatcher/ignorefile"
	_ "github.com/pelletier/go-toml/v2"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/santhosh-tekuri/jsonschema/v6"
	_ "github.com/spf13/cobra"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sync/singleflight"
	_ "golang.org/x/sys/unix"
	_ "k8s.io/apimachinery/pkg/api/resource"
	_ "mvdan.cc/sh/v3/interp"
)
