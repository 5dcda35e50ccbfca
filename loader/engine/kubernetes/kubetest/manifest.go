package kubetest

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// rule is one line of a table such as job-v1.txt.
type rule struct {
	kind     string
	required bool
}

//go:embed *-v1.txt
var published embed.FS

// rules are those of a kind; none where there is no table of it.
func rules(kind string) map[string]rule {
	text, _ := published.ReadFile(strings.ToLower(kind) + "-v1.txt")
	all := map[string]rule{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, kind, _ := strings.Cut(line, " ")
		all[strings.TrimSuffix(name, "*")] = rule{kind, strings.HasSuffix(name, "*")}
	}
	return all
}

// Check says what of a manifest the published types would refuse: of a Job, or
// of another kind that has a table.
func Check(text []byte) (wrong []string) {
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return []string{err.Error()}
	}
	top, _ := tree.(map[string]any)
	kind, _ := top["kind"].(string)
	all := rules(kind)
	if len(all) == 0 {
		return []string{fmt.Sprintf("no table of the fields of a %q", kind)}
	}
	has := map[string]int{} // how often a path, without indexes, is there
	var visit func(path string, v any)
	visit = func(path string, v any) {
		has[path]++
		if r, ok := all[path+"{}"]; ok {
			m, _ := v.(map[string]any)
			for _, e := range m {
				if !fits(r.kind, e) {
					wrong = append(wrong, fmt.Sprintf("%s: %v is no %s", path, e, r.kind))
				}
			}
			return
		}
		if r, ok := all[path]; ok {
			if !fits(r.kind, v) {
				wrong = append(wrong, fmt.Sprintf("%s: %v is no %s", path, v, r.kind))
			}
			return
		}
		switch v := v.(type) {
		case map[string]any:
			for key, e := range v {
				visit(strings.TrimPrefix(path+"."+key, "."), e)
			}
		case []any:
			for _, e := range v {
				visit(path+"[]", e)
			}
		default:
			wrong = append(wrong, fmt.Sprintf("unknown field %q", path))
		}
	}
	visit("", tree)
	for path, r := range all {
		parent := ""
		if i := strings.LastIndexByte(path, '.'); i > 0 {
			parent = path[:i]
		}
		if r.required && has[path] < has[parent] {
			wrong = append(wrong, "missing "+path)
		}
	}
	slices.Sort(wrong)
	return wrong
}

var (
	dnsName  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	label    = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
	quantity = regexp.MustCompile(`^[0-9]+([kMGT]i?|m)?$`)
)

func fits(kind string, v any) bool {
	text, isText := v.(string)
	n, isInt := v.(int)
	switch {
	case kind[0] == '=':
		return isText && slices.Contains(strings.Split(kind[1:], ","), text)
	case kind == "int":
		return isInt && n >= 0
	case kind == "bool":
		_, ok := v.(bool)
		return ok
	case kind == "dns":
		return isText && dnsName.MatchString(text)
	case kind == "label":
		return isText && label.MatchString(text)
	case kind == "quantity":
		return isInt || isText && quantity.MatchString(text)
	case kind == "empty":
		m, ok := v.(map[string]any)
		return ok && len(m) == 0
	default:
		return isText
	}
}
