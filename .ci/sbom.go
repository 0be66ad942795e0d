// Sbom prints what a Go binary is made of, as its build recorded it: a software bill of materials
// in CycloneDX's JSON.
//
//	go run .ci/sbom.go BINARY VERSION > rollout.cdx.json
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// The parts of https://cyclonedx.org/docs/1.6/json/ that are known of a binary.
type bom struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run .ci/sbom.go BINARY VERSION")
		os.Exit(2)
	}
	info, err := buildinfo.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{module("application", info.Main.Path, os.Args[2], "")}}
	out.Components = append(out.Components, module("library", "std", strings.TrimPrefix(info.GoVersion, "go"), ""))
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		out.Components = append(out.Components, module("library", dep.Path, dep.Version, dep.Sum))
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// module is a Go module; sum is what go.sum says of it.
func module(kind, path, version, sum string) component {
	purl := "pkg:golang/" + path + "@" + version
	c := component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
	if sum != "" {
		c.Properties = []property{{"go:sum", sum}}
	}
	return c
}
