package main

import (
	"cmp"
	"crypto/md5"
	"fmt"
	"maps"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maintainer is who made the package, by the variables that Debian's own tools take
// it from: DEBFULLNAME and DEBEMAIL. Without an address it is one that nobody can
// have (RFC 2606), for the project has none.
func maintainer() (string, error) {
	name, address := cmp.Or(os.Getenv("DEBFULLNAME"), "The authors of Sawlog"), cmp.Or(os.Getenv("DEBEMAIL"), "authors@sawlog.invalid")
	parsed, err := mail.ParseAddress((&mail.Address{Name: name, Address: address}).String())
	if err != nil || parsed.Address != address || strings.ContainsAny(name, "<>\n") {
		return "", fmt.Errorf("DEBFULLNAME=%q, DEBEMAIL=%q: want a name, and an address such as me@example.org", name, address)
	}
	return name + " <" + address + ">", nil
}

// description is what apt shows.
const description = `Kafka-protocol broker that cuts its log into columns
 Sawlog is one static binary: a broker for any Kafka client, a batch loader that
 writes Parquet by event hour and commits it exactly once, to local disks or
 HDFS, and a scheduler with a history, a console and an API.
 .
 The server runs as the user sawlog, keeps its log in /var/lib/sawlog, and is
 not started before somebody enables it.`

// controlFiles are what dpkg reads of the package.
func controlFiles(r release, t tree) (tree, error) {
	size := 0
	for _, f := range t {
		size += (len(f.body) + 1023) / 1024
	}
	control := fmt.Sprintf("Package: sawlog\nVersion: %s\nArchitecture: %s\nMaintainer: %s\nInstalled-Size: %d\nRecommends: systemd\nSuggests: kcat\nSection: net\nPriority: optional\nDescription: %s\n",
		r.version, r.arch, r.maintainer, size+len(t.dirs()), description)
	files := tree{"control": {0o644, []byte(control)}, "conffiles": {0o644, []byte(conffiles(t))}, "md5sums": {0o644, []byte(sums(t))}}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		body, err := os.ReadFile(filepath.Join(r.root, "packaging/debian", script))
		if err != nil {
			return nil, err
		}
		files[script] = file{0o755, body}
	}
	return files, nil
}

// conffiles are kept by dpkg where somebody changed them: all of /etc.
func conffiles(t tree) string {
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if strings.HasPrefix(name, "etc/") {
			list.WriteString("/" + name + "\n")
		}
	}
	return list.String()
}

// sums are what dpkg --verify compares.
func sums(t tree) string {
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if !strings.HasPrefix(name, "etc/") {
			fmt.Fprintf(&list, "%x  %s\n", md5.Sum(t[name].body), name)
		}
	}
	return list.String()
}
