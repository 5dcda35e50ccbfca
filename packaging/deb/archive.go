package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// file is one file of an archive, owned by root.
type file struct {
	mode int64
	body []byte
}

// tree holds files by their path without a leading slash.
type tree map[string]file

// writePackage writes the ar archive: the version of the format, what dpkg reads,
// what it unpacks.
func writePackage(w io.Writer, control, data tree, made time.Time) error {
	controlTar, err := control.archive(made)
	if err != nil {
		return err
	}
	dataTar, err := data.archive(made)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, "!<arch>\n"); err != nil {
		return err
	}
	for _, m := range []struct {
		name string
		body []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", controlTar}, {"data.tar.gz", dataTar}} {
		head := fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, made.Unix(), 0, 0, "100644", len(m.body))
		if len(m.body)%2 == 1 {
			m.body = append(m.body, '\n')
		}
		if _, err := w.Write(append([]byte(head), m.body...)); err != nil {
			return err
		}
	}
	return nil
}

// archive is the tree as a compressed tar, folders before what is in them.
func (t tree) archive(made time.Time) ([]byte, error) {
	var out bytes.Buffer
	packed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(packed)
	put := func(name string, kind byte, f file) error {
		err := w.WriteHeader(&tar.Header{
			Typeflag: kind, Name: name, Size: int64(len(f.body)), Mode: f.mode, ModTime: made,
			Uname: "root", Gname: "root", Format: tar.FormatGNU,
		})
		if err == nil {
			_, err = w.Write(f.body)
		}
		return err
	}
	for _, dir := range t.dirs() {
		if err := put(dir, tar.TypeDir, file{mode: 0o755}); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if err := put("./"+name, tar.TypeReg, t[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// dirs are all folders, each after the one it is in.
func (t tree) dirs() []string {
	seen := map[string]bool{"./": true}
	for name := range t {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			seen["./"+dir+"/"] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), strings.Compare)
}

// gzipped is how Debian wants manual pages and long texts.
func gzipped(body []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}
