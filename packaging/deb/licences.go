package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// addLicences adds the licences of everything that is in the binary, as they
// want it. A library without one can't be packed.
func (t tree) addLicences(root string) error {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/sawlog")
	list.Dir = root
	var said bytes.Buffer
	list.Stderr = &said
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w: %s", err, said.String())
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	modules := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(modules)
	modules = append([]string{"Go\t" + strings.TrimSpace(string(goroot))}, slices.Compact(modules)...)
	var text bytes.Buffer
	for _, module := range modules {
		name, dir, _ := strings.Cut(module, "\t")
		found, err := licencesIn(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&text, "==== %s\n\n%s\n", name, found)
	}
	return t.pack(docs+"licences.gz", text.Bytes())
}

// licenceName are the files that licences and notices stand in; a few authors
// have them in their README.
var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|unlicense|copying|notice|README\.md$)`)

// granted is in every README that is a licence (MIT's) too.
const granted = "Permission is hereby granted, free of charge"

// licencesIn reads the licence and the notices in a folder of a module.
func licencesIn(dir string) ([]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []byte
	for _, e := range entries {
		if e.IsDir() || !licenceName.MatchString(e.Name()) {
			continue
		}
		body, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(e.Name(), "README") && !bytes.Contains(body, []byte(granted)) {
			continue
		}
		all = append(append(all, bytes.TrimSpace(body)...), "\n\n"...)
	}
	if len(all) == 0 {
		return nil, errors.New("no licence is in " + dir)
	}
	return all, nil
}
