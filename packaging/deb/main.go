// Command deb writes the Debian package of a binary: two tar archives in an ar
// archive (deb(5)), so no Debian tool is needed. The same binary, version,
// maintainer and SOURCE_DATE_EPOCH make the same bytes. The maintainer is that of
// DEBFULLNAME and DEBEMAIL; who hands the package on should set them.
//
//	go run ./packaging/deb -binary bin/sawlog -version v1.2.0 -arch amd64 -out bin
//
// It is run at the root of the project, whose files it packs. Manual pages and
// completions are what the binary itself prints, or the one that -host names where
// the packed one is for another machine.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

func main() {
	binary := flag.String("binary", "bin/sawlog", "`FILE` to pack")
	host := flag.String("host", "", "`FILE` of the same release that runs here; -binary if left out")
	version := flag.String("version", "", "what git describe says")
	arch := flag.String("arch", "amd64", "Debian's name of the architecture")
	out := flag.String("out", "bin", "`DIR` to write the package into")
	root := flag.String("root", ".", "`DIR` of the project")
	flag.Parse()
	if *host == "" {
		*host = *binary
	}
	path, err := build(release{root: *root, binary: *binary, host: *host, arch: *arch, version: *version}, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "deb:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

// release is what is packed.
type release struct {
	root    string // of the project
	binary  string // path
	host    string // path of one that runs here
	arch    string
	version string // what git describe says; Debian's once it is packed

	maintainer string // NAME <ADDRESS>
}

// build writes the package and returns its path.
func build(r release, out string) (string, error) {
	made, err := epoch()
	if err != nil {
		return "", err
	}
	if r.maintainer, err = maintainer(); err != nil {
		return "", err
	}
	r.version = debianVersion(r.version, made)
	t, err := contents(r, made)
	if err != nil {
		return "", err
	}
	control, err := controlFiles(r, t)
	if err != nil {
		return "", err
	}
	path := filepath.Join(out, fmt.Sprintf("sawlog_%s_%s.deb", r.version, r.arch))
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	return path, errors.Join(writePackage(f, control, t, made), f.Close())
}

// epoch is the time of everything in the package: SOURCE_DATE_EPOCH, in seconds.
func epoch() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%q: want the seconds since 1970 of the commit, such as $(git log -1 --format=%%ct)", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
