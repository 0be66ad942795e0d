package mine

import (
	"path"
	"regexp"
	"strings"
)

// javaVersion matches what a pom.xml says of the version of Java.
var javaVersion = regexp.MustCompile(`<(?:maven\.compiler\.(?:release|source|target)|java\.version|release|source)>\s*(?:1\.)?([0-9]+)\s*<`)

// javaImages are the versions of Java that have an image.
var javaImages = []string{"8", "11", "17", "21"}

// classDir matches the directories in which the packages of tests are. Source: Maven, Standard
// Directory Layout.
var classDir = regexp.MustCompile(`^(?:.*/)?src/test/(?:java|kotlin|scala)/`)

// planMaven runs the classes of the test files with Maven's surefire, from the outermost directory
// with a pom.xml, because modules depend on each other.
func planMaven(m module, tests []string) plan {
	if !m.has("pom.xml") {
		return plan{lacks: m.language + ": no pom.xml"}
	}
	top := m
	for top.dir != "." && m.in(path.Dir(top.dir)).has("pom.xml") {
		top = m.in(path.Dir(top.dir))
	}
	version := "21"
	for _, of := range []module{top, m} {
		if found := javaVersion.FindStringSubmatch(of.text("pom.xml")); found != nil {
			version = found[1]
		}
	}
	image := "maven:3-eclipse-temurin-21"
	for i := len(javaImages) - 1; i >= 0; i-- { // the oldest image that is new enough
		if len(version) < len(javaImages[i]) || len(version) == len(javaImages[i]) && version <= javaImages[i] {
			image = "maven:3-eclipse-temurin-" + javaImages[i]
		}
	}
	p := plan{image: image, at: top.dir, dir: top.dir, prepare: []string{"mvn -B -q test > /dev/null 2>&1 || true # fetches all that the tests need"}}
	for _, test := range tests {
		class := strings.TrimSuffix(classDir.ReplaceAllString(test, ""), path.Ext(test))
		p.targets = append(p.targets, strings.ReplaceAll(class, "/", "."))
	}
	if top.dir != m.dir {
		p.command = []string{"-pl", top.relative(m.dir), "-am"}
	}
	return p
}
