package hdfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/jcmturner/gokrb5/v8/config"
)

// readKrb5 reads Kerberos' own configuration.
func readKrb5(env func(string) string) (*config.Config, error) {
	path, text, err := krb5File(env)
	if err != nil {
		return nil, err
	}
	return parseKrb5(path, text)
}

// krb5File is the file with Kerberos' own configuration: the first of
// $KRB5_CONFIG that is there, or /etc/krb5.conf.
func krb5File(env func(string) string) (path, text string, err error) {
	list := env("KRB5_CONFIG")
	if list == "" {
		list = "/etc/krb5.conf"
	}
	for path := range strings.SplitSeq(list, ":") {
		if text, err = krb5Text(path, 0); !errors.Is(err, os.ErrNotExist) {
			return path, text, err
		}
	}
	return "", "", fmt.Errorf("no krb5.conf, which names the KDC of Kerberos: %w ($KRB5_CONFIG names another file)", err)
}

func parseKrb5(path, text string) (*config.Config, error) {
	c, err := config.NewFromString(sectioned(text))
	if unknown := (config.UnsupportedDirective{}); errors.As(err, &unknown) {
		err = nil // a setting gokrb5 knows and does without
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// includedName is what files of an includedir are called, others are left out
// (krb5.conf(5)).
var includedName = regexp.MustCompile(`^([A-Za-z0-9_-]+|[^.].*\.conf)$`)

// krb5Text is a file with those it includes in their places; gokrb5 leaves
// includes out, and most distributions begin their krb5.conf with one.
func krb5Text(path string, depth int) (string, error) {
	if depth > 10 {
		return "", fmt.Errorf("%s: files include each other", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var files []string
		switch word {
		case "include":
			files = []string{strings.TrimSpace(rest)}
		case "includedir":
			found, err := os.ReadDir(strings.TrimSpace(rest))
			if err != nil {
				return "", fmt.Errorf("%s: includedir: %w", path, err)
			}
			for _, entry := range found {
				if includedName.MatchString(entry.Name()) && !entry.IsDir() {
					files = append(files, filepath.Join(strings.TrimSpace(rest), entry.Name()))
				}
			}
		default:
			out.WriteString(line)
			continue
		}
		for _, file := range files {
			text, err := krb5Text(file, depth+1)
			if err != nil {
				return "", fmt.Errorf("%s: %w", path, err)
			}
			out.WriteString(text + "\n")
		}
	}
	return out.String(), nil
}

// sectioned has each section once: of a section that stands in several files
// gokrb5 would keep the last.
func sectioned(text string) string {
	var order []string
	lines := map[string]*strings.Builder{}
	section := ""
	for line := range strings.Lines(text) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, "[") {
			section = name
			continue
		}
		if lines[section] == nil {
			lines[section] = &strings.Builder{}
			order = append(order, section)
		}
		lines[section].WriteString(line)
	}
	var out strings.Builder
	for _, name := range order {
		out.WriteString(name + "\n" + lines[name].String() + "\n")
	}
	return out.String()
}
