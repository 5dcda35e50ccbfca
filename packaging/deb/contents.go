package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// docs is where Debian keeps what belongs to a package and runs nowhere.
const docs = "usr/share/doc/sawlog/"

// packed are files of the project and where they go.
var packed = map[string]string{
	"packaging/debian/sawlog.service": "usr/lib/systemd/system/sawlog.service",
	"packaging/debian/sysusers.conf":  "usr/lib/sysusers.d/sawlog.conf",
	"packaging/debian/sawlog.yaml":    "etc/sawlog/sawlog.yaml",
	"packaging/debian/copyright":      docs + "copyright",
	"packaging/Dockerfile":            docs + "examples/Dockerfile",
}

// packedTrees are folders of the project and where they go.
var packedTrees = map[string]string{
	"examples":             docs + "examples",
	"monitoring":           docs + "monitoring",
	"packaging/kubernetes": docs + "examples/kubernetes",
}

// contents gathers what dpkg unpacks.
func contents(r release, made time.Time) (tree, error) {
	body, err := os.ReadFile(r.binary)
	if err != nil {
		return nil, err
	}
	t := tree{"usr/bin/sawlog": {0o755, body}}
	for from, to := range packed {
		if err := t.add(filepath.Join(r.root, from), to); err != nil {
			return nil, err
		}
	}
	for from, to := range packedTrees {
		if err := t.addTree(filepath.Join(r.root, from), to); err != nil {
			return nil, err
		}
	}
	if err := t.zip(filepath.Join(r.root, "docs/UPGRADE.md"), docs+"UPGRADE.md.gz"); err != nil {
		return nil, err
	}
	if err := t.addPrinted(r.host, made); err != nil {
		return nil, err
	}
	if err := t.addLicences(r.root); err != nil {
		return nil, err
	}
	return t, t.pack(docs+"changelog.gz", []byte(changelog(r, made)))
}

// changelog is what lintian wants of a package that is its own upstream.
func changelog(r release, made time.Time) string {
	return fmt.Sprintf("sawlog (%s) unstable; urgency=medium\n\n  * Built of that release; UPGRADE.md.gz beside this says what changed.\n\n -- %s  %s\n",
		r.version, r.maintainer, made.Format(time.RFC1123Z))
}

func (t tree) add(from, to string) error {
	body, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	t[to] = file{0o644, body}
	return nil
}

func (t tree) addTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == "testdata" {
			return filepath.SkipDir
		}
		if d.IsDir() || strings.HasSuffix(path, ".go") {
			return nil
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return t.add(path, to+"/"+filepath.ToSlash(rel))
	})
}

func (t tree) zip(from, to string) error {
	body, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return t.pack(to, body)
}

func (t tree) pack(to string, body []byte) error {
	small, err := gzipped(body)
	t[to] = file{0o644, small}
	return err
}

// completions are the shells the binary completes for, and where each looks.
var completions = map[string]string{
	"bash": "usr/share/bash-completion/completions/sawlog",
	"zsh":  "usr/share/zsh/vendor-completions/_sawlog",
	"fish": "usr/share/fish/vendor_completions.d/sawlog.fish",
}

// addPrinted adds what the binary prints of itself.
func (t tree) addPrinted(binary string, made time.Time) error {
	for shell, to := range completions {
		out, err := output(binary, made, "completion", shell)
		if err != nil {
			return err
		}
		t[to] = file{0o644, out}
	}
	pages, err := os.MkdirTemp("", "sawlog-man-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(pages) }() // a folder of its own
	if _, err := output(binary, made, "man", pages); err != nil {
		return err
	}
	list, err := os.ReadDir(pages)
	if err != nil {
		return err
	}
	for _, page := range list {
		if err := t.zip(filepath.Join(pages, page.Name()), "usr/share/man/man1/"+page.Name()+".gz"); err != nil {
			return err
		}
	}
	return nil
}

func output(binary string, made time.Time, args ...string) ([]byte, error) {
	path, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	c := exec.Command(path, args...)
	c.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", made.Unix()))
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", binary, strings.Join(args, " "), err, said.String())
	}
	return out, nil
}
