package tidy

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// requirements lists what each module may require directly: a requirement raises the
// versions of our users even if nothing of it is compiled. Every module must be listed.
var requirements = map[string][]string{
	".": {
		modulePath + "/guard", "golang.org/x/sys", "google.golang.org/grpc", "google.golang.org/protobuf",
	},
	"guard":         nil,
	"guard/pgguard": {modulePath + "/guard", "github.com/jackc/pgx/v5"},
	"guard/objguard/s3bucket": {
		modulePath + "/guard",
		"github.com/aws/aws-sdk-go-v2", "github.com/aws/aws-sdk-go-v2/service/s3", "github.com/aws/smithy-go",
	},
	"cmd/pawl":          {"*"},
	"test":              {"*"},
	"bench":             {"*"},
	"tools":             {"*"},
	"tools/etcd35":      {"*"},
	"tools/etcd36":      {"*"},
	"tools/etcd37":      {"*"},
	"tools/fakegcs":     {"*"},
	"tools/versitygw17": {"*"},
	"tools/versitygw18": {"*"},
}

// outsideWorkspace would raise everybody's versions.
var outsideWorkspace = []string{"bench", "tools", "tools/etcd35", "tools/etcd36", "tools/etcd37", "tools/fakegcs", "tools/versitygw17", "tools/versitygw18"}

var (
	replaceLine   = regexp.MustCompile(`(?m)^\s*replace\b`)
	toolchainLine = regexp.MustCompile(`(?m)^\s*toolchain\b`)
	goLine        = regexp.MustCompile(`(?m)^go (\S+)$`)
	requireLine   = regexp.MustCompile(`^(?:require\s+)?(\S+) (v\S+)( // indirect)?$`)
)

type requirement struct {
	module, version string
	indirect        bool
}

// requires reads the requirements of a go.mod as `go mod tidy` writes it.
func requires(goMod string) []requirement {
	var reqs []requirement
	block := ""
	for line := range strings.Lines(goMod) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasSuffix(line, " ("):
			block = strings.TrimSuffix(line, " (")
			continue
		case line == ")":
			block = ""
			continue
		case block != "require" && !strings.HasPrefix(line, "require "):
			continue
		}
		if m := requireLine.FindStringSubmatch(line); m != nil {
			reqs = append(reqs, requirement{m[1], m[2], m[3] != ""})
		}
	}
	return reqs
}

// modules checks the go.mod files, given by path, against the plan and go.work.
func modules(goMods map[string]string, goWork string) []Finding {
	const rule = "modules"
	var found []Finding
	say := func(file, what string) { found = append(found, Finding{rule, file, 0, what}) }
	for file, text := range goMods {
		dir := path.Dir(file)
		if replaceLine.MatchString(text) {
			say(file, "holds a replace: go install ...@latest would refuse it")
		}
		if toolchainLine.MatchString(text) {
			say(file, "holds a toolchain line: that is the user's choice")
		}
		if m := goLine.FindStringSubmatch(text); m == nil || m[1] != "1.26" && !strings.HasPrefix(m[1], "1.26.") {
			say(file, "is not go 1.26")
		} else if m[1] != "1.26" && m[1] != "1.26.0" && !slices.Contains(outsideWorkspace, dir) {
			say(file, "asks for a patch release of Go, "+m[1])
		}
		allowed, known := requirements[dir]
		if !known {
			say(file, "internal/tidy does not know what this module may require")
			continue
		}
		for _, req := range requires(text) {
			if (req.module == modulePath || strings.HasPrefix(req.module, modulePath+"/")) && req.version != "v0.0.0" {
				say(file, "requires "+req.module+" at "+req.version+", not at v0.0.0")
			}
			if !req.indirect && !slices.Contains(allowed, "*") && !slices.Contains(allowed, req.module) {
				say(file, "may not require "+req.module)
			}
			if req.indirect && len(allowed) == 0 {
				say(file, "may not require "+req.module+", not even indirectly")
			}
		}
		found = append(found, inWorkspace(file, text, goWork)...)
	}
	slices.SortFunc(found, func(a, b Finding) int { return strings.Compare(a.String(), b.String()) })
	return found
}

func inWorkspace(file, text, goWork string) []Finding {
	const rule = "modules"
	dir := path.Dir(file)
	use := "./" + dir
	if dir == "." {
		use = "."
	}
	used := regexp.MustCompile(`(?m)^\s*(?:use )?` + regexp.QuoteMeta(use) + `$`).MatchString(goWork)
	if slices.Contains(outsideWorkspace, dir) {
		if used {
			return []Finding{{rule, "go.work", 0, dir + " would raise everybody's versions: take it out"}}
		}
		return nil
	}
	var found []Finding
	if !used {
		found = append(found, Finding{rule, "go.work", 0, "does not use " + use})
	}
	module, _, _ := strings.Cut(strings.TrimPrefix(text, "module "), "\n")
	if !strings.Contains(goWork, module+" v0.0.0 => "+use+"\n") {
		found = append(found, Finding{rule, "go.work", 0, "does not replace " + module + " v0.0.0"})
	}
	return found
}
