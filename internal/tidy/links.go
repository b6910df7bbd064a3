package tidy

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// links finds links of the documents that lead to a file we do not have. Links
// to elsewhere are not followed, since a test needs no network.
func links(t *Tree) []Finding {
	var found []Finding
	for _, name := range t.Paths {
		code := false
		n := 0
		for line := range strings.Lines(t.Docs[name]) {
			n++
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if code {
				continue
			}
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				target, _, _ := strings.Cut(m[1], "#")
				if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}
				if !t.has(path.Join(path.Dir(name), target)) {
					found = append(found, Finding{"links", name, n, target + " is not there"})
				}
			}
		}
	}
	return found
}

// has reports whether there is such a file or folder.
func (t *Tree) has(name string) bool {
	return name == "." || slices.ContainsFunc(t.Paths, func(p string) bool {
		return p == name || strings.HasPrefix(p, name+"/")
	})
}
