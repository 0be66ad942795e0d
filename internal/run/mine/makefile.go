package mine

import (
	"regexp"
)

var makefiles = []string{"GNUmakefile", "makefile", "Makefile"}

// testTarget matches the rule of a Makefile for the target test. Source: GNU make, Rule Syntax.
var testTarget = regexp.MustCompile(`(?m)^([^\s#:=]+ +)*test( +[^\s#:=]+)* *::?([^=:]|$)`)

// imagesOf are images by the languages that have no runner but make.
var imagesOf = map[string]string{
	"c": "gcc:14", "c++": "gcc:14", "ruby": "ruby:3", "php": "php:8-cli", "elixir": "elixir:1", "perl": "perl:5", "java": "maven:3-eclipse-temurin-21", "rust": "rust:1",
}

func planMake(m module, _ []string) plan {
	for _, name := range makefiles {
		if !m.has(name) {
			continue
		}
		if !testTarget.MatchString(m.text(name)) {
			return plan{lacks: m.language + ": " + name + " has no target test"}
		}
		image := imagesOf[m.language]
		if image == "" {
			image = "debian:bookworm"
		}
		return plan{image: image, dir: m.dir, targets: []string{"test"}}
	}
	return plan{lacks: m.language}
}
