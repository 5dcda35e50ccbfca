package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

const testEpoch = "1790000000"

// made builds the package of the tree the test is of, with a binary or, where
// none is run, something small.
func made(t *testing.T, binary string) string {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", testEpoch)
	path, err := build(release{root: "../..", binary: binary, host: peer.Binary(t), arch: "amd64", version: "1.2.0"}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// entry is one file of a package as it is read back.
type entry struct {
	tar.Header
	body []byte
}

// readPackage takes a package apart: the names of its members, and what is in
// the two archives, in order.
func readPackage(t *testing.T, path string) (members []string, control, data []entry) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rest, ok := bytes.CutPrefix(raw, []byte("!<arch>\n"))
	if !ok {
		t.Fatalf("no ar archive: %q", raw[:8])
	}
	for len(rest) > 0 {
		head := string(rest[:60])
		size, err := strconv.Atoi(strings.TrimSpace(head[48:58]))
		if err != nil || head[58:] != "`\n" || strings.TrimSpace(head[16:28]) != testEpoch {
			t.Fatalf("member %q: %v", head, err)
		}
		name, body := strings.TrimSpace(head[:16]), rest[60:60+size]
		rest = rest[60+size+size%2:]
		switch members = append(members, name); name {
		case "control.tar.gz":
			control = untar(t, body)
		case "data.tar.gz":
			data = untar(t, body)
		}
	}
	return members, control, data
}

func untar(t *testing.T, packed []byte) (list []entry) {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, entry{*h, body})
	}
}

func find(list []entry, name string) []byte {
	for _, e := range list {
		if e.Name == name {
			return e.body
		}
	}
	return nil
}

// TestPackage holds the package against what lintian would say of it; made twice
// it is the same.
func TestPackage(t *testing.T) {
	root, err := filepath.Abs("../..") // the paths of who built it are nobody's business
	if err != nil {
		t.Fatal(err)
	}
	deb := made(t, "deb_test.go")
	sameAgain(t, deb)
	members, control, data := readPackage(t, deb)
	if want := []string{"debian-binary", "control.tar.gz", "data.tar.gz"}; !slices.Equal(members, want) {
		t.Fatalf("members %q, want %q", members, want)
	}
	seen := map[string]bool{}
	for _, e := range append(slices.Clone(control), data...) {
		if e.Uid != 0 || e.Gid != 0 || e.Uname != "root" || strconv.FormatInt(e.ModTime.Unix(), 10) != testEpoch {
			t.Errorf("%s: owner %d:%d, time %s", e.Name, e.Uid, e.Gid, e.ModTime)
		}
	}
	for _, e := range data {
		name := strings.TrimSuffix(e.Name, "/")
		switch mode := e.Mode; {
		case e.Typeflag == tar.TypeDir && mode != 0o755,
			e.Typeflag == tar.TypeReg && e.Name == "./usr/bin/sawlog" && mode != 0o755,
			e.Typeflag == tar.TypeReg && e.Name != "./usr/bin/sawlog" && mode != 0o644:
			t.Errorf("%s: mode %o", e.Name, mode)
		}
		if name != "." && !seen[path.Dir(strings.TrimPrefix(name, "./"))] {
			t.Errorf("%s comes before its folder", e.Name)
		}
		seen[strings.TrimPrefix(name, "./")] = true
		if name == "." {
			seen["."] = true
		}
		if strings.HasPrefix(name, "./usr/local") || strings.HasPrefix(name, "./home") || strings.HasPrefix(name, "./var") {
			t.Errorf("%s: not a place for packages", name)
		}
		if gz := strings.HasSuffix(name, ".gz"); strings.HasPrefix(name, "./usr/share/man/man1/") != (gz && strings.Contains(name, "/man1/")) {
			t.Errorf("%s: a manual page that is not compressed", name)
		}
		if bytes.Contains(e.body, []byte(root)) && e.Name != "./usr/bin/sawlog" {
			t.Errorf("%s names a folder of the machine it was built on", name)
		}
	}
	for _, want := range []string{
		"usr/bin/sawlog", "usr/lib/systemd/system/sawlog.service", "usr/lib/sysusers.d/sawlog.conf", "etc/sawlog/sawlog.yaml",
		"usr/share/man/man1/sawlog.1.gz", "usr/share/man/man1/sawlog-serve.1.gz", "usr/share/man/man1/sawlog-job-apply.1.gz",
		"usr/share/bash-completion/completions/sawlog", "usr/share/zsh/vendor-completions/_sawlog", "usr/share/fish/vendor_completions.d/sawlog.fish",
		docs + "copyright", docs + "changelog.gz", docs + "licences.gz", docs + "UPGRADE.md.gz", docs + "examples/jobs/json.yaml", docs + "examples/kubernetes/sawlog.yaml",
	} {
		if !seen[want] {
			t.Errorf("%s is not in it", want)
		}
	}
	if got := string(find(control, "./conffiles")); got != "/etc/sawlog/sawlog.yaml\n" {
		t.Errorf("conffiles: %q", got)
	}
	for _, field := range []string{"Package: sawlog\n", "Version: 1.2.0\n", "Architecture: amd64\n", "Maintainer: ", "Installed-Size: ", "Section: ", "Priority: ", "Description: "} {
		if !bytes.Contains(find(control, "./control"), []byte(field)) {
			t.Errorf("control has no %q", field)
		}
	}
	checkSums(t, find(control, "./md5sums"), data)
	checkLicences(t, data)
}

func sameAgain(t *testing.T, path string) {
	t.Helper()
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(made(t, "deb_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Errorf("two packages of one tree differ: %d and %d bytes", len(first), len(second))
	}
}

// TestTimeOfThePackage: without a time of its own no package is made.
func TestTimeOfThePackage(t *testing.T) {
	for _, epoch := range []string{"", "now", "-1"} {
		t.Setenv("SOURCE_DATE_EPOCH", epoch)
		r := release{root: "../..", binary: "deb_test.go", host: "deb_test.go", arch: "amd64", version: "1.2.0"}
		if _, err := build(r, t.TempDir()); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
			t.Errorf("%q: %v", epoch, err)
		}
	}
}

// checkSums holds md5sums against the files: all of them but for conffiles.
func checkSums(t *testing.T, sums []byte, data []entry) {
	t.Helper()
	listed := 0
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if got := fmt.Sprintf("%x", md5.Sum(find(data, "./"+name))); got != sum {
			t.Errorf("%s: md5 %s, listed as %s", name, got, sum)
		}
		listed++
	}
	files := 0
	for _, e := range data {
		if e.Typeflag == tar.TypeReg && !strings.HasPrefix(e.Name, "./etc/") {
			files++
		}
	}
	if listed != files || files < 20 {
		t.Errorf("%d sums of %d files", listed, files)
	}
}

// checkLicences: whatever is linked in has its licence in the package.
func checkLicences(t *testing.T, data []entry) {
	t.Helper()
	packed, err := gzip.NewReader(bytes.NewReader(find(data, "./"+docs+"licences.gz")))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Go", "github.com/hashicorp/raft ", "github.com/apache/arrow/go/v15 ", "github.com/twmb/franz-go ", "go.etcd.io/bbolt "} {
		if !bytes.Contains(text, []byte("==== "+name)) {
			t.Errorf("no licence of %s", name)
		}
	}
	if bytes.Contains(text, []byte("==== sawlog")) {
		t.Error("the project is listed as somebody else's")
	}
	if _, err := licencesIn(t.TempDir()); err == nil {
		t.Error("a library without a licence is packed")
	}
}

func TestDebianVersion(t *testing.T) {
	at := time.Unix(1_790_000_000, 0).UTC()
	for describe, want := range map[string]string{
		"v1.2.0":                "1.2.0",
		"v1.2.0-rc1":            "1.2.0~rc1",
		"v1.2.0-5-gabc0123":     "1.2.0+5+gabc0123",
		"1.2.0-5-gabc012-dirty": "1.2.0+5+gabc012+dirty",
		"3abc012":               "0~20260921141320.3abc012",
		"abc012-dirty":          "0~20260921141320.abc012.dirty",
		"dev":                   "0~20260921141320.dev",
		"":                      "0~20260921141320.",
	} {
		if got := debianVersion(describe, at); got != want {
			t.Errorf("%q: %q, want %q", describe, got, want)
		}
	}
}

// TestScriptsOfThePackage: every script parses, and does nothing to a system
// that is not booted.
func TestScriptsOfThePackage(t *testing.T) {
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		script := filepath.Join("..", "debian", name)
		for _, args := range [][]string{{"-n", script}, {script, "upgrade", "1.1.0"}, {script, "abort-upgrade", "1.1.0"}, {script, "remove"}} {
			run(t, []string{"DPKG_ROOT=" + t.TempDir()}, "sh", args...)
		}
	}
}

// TestMaintainer takes the maintainer from where Debian's tools do, and refuses
// what would break the fields of the package.
func TestMaintainer(t *testing.T) {
	for _, c := range []struct{ name, address, want string }{
		{"", "", "The authors of Sawlog <authors@sawlog.invalid>"},
		{"Ann Smith", "ann@example.org", "Ann Smith <ann@example.org>"},
		{"Ánn Ö.", "ann@example.org", "Ánn Ö. <ann@example.org>"},
		{"", "pkg@example.org", "The authors of Sawlog <pkg@example.org>"},
		{"Ann", "ann", ""},
		{"Ann", "Ann <ann@example.org>", ""},
		{"Ann\nDepends: x", "ann@example.org", ""},
		{"Ann <x>", "ann@example.org", ""},
	} {
		t.Setenv("DEBFULLNAME", c.name)
		t.Setenv("DEBEMAIL", c.address)
		if got, err := maintainer(); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q, %q: %q, %v, want %q", c.name, c.address, got, err, c.want)
		}
	}
}
