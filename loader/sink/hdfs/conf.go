package hdfs

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
)

// conf is Hadoop's configuration, as its own clients read it from core-site.xml
// and hdfs-site.xml: later files win over earlier ones but for properties marked
// final, xi:include brings in other files, and ${…} is replaced when a value is
// used.
type conf struct {
	dir    string // empty = none is in use
	values map[string]value
	env    func(string) string
}

type value struct {
	text  string
	file  string // where it stands
	final bool
}

// siteFiles are what a client of HDFS reads, in this order.
var siteFiles = []string{"core-site.xml", "hdfs-site.xml"}

// deprecated are old names of keys that files may still hold.
var deprecated = map[string]string{
	"fs.default.name":             "fs.defaultFS",
	"dfs.federation.nameservices": "dfs.nameservices",
}

// readConf reads the configuration of $HADOOP_CONF_DIR, or of
// $HADOOP_HOME/etc/hadoop. Where neither is set there is none, and that is no
// error; a folder that is named and holds none is one.
func readConf(env func(string) string) (*conf, error) {
	c := &conf{values: map[string]value{}, env: env}
	from := "HADOOP_CONF_DIR"
	c.dir = env(from)
	if home := env("HADOOP_HOME"); c.dir == "" && home != "" {
		from, c.dir = "HADOOP_HOME", filepath.Join(home, "etc", "hadoop")
	}
	if c.dir == "" {
		return c, nil
	}
	found := false
	for _, name := range siteFiles {
		err := c.read(filepath.Join(c.dir, name), nil)
		if errors.Is(err, fs.ErrNotExist) && !found && name == siteFiles[0] {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		found = found || err == nil
	}
	if !found {
		return nil, fmt.Errorf("$%s: %s holds neither core-site.xml nor hdfs-site.xml", from, c.dir)
	}
	return c, nil
}

// element is one element of a configuration file.
type element struct {
	XMLName  xml.Name
	Href     string    `xml:"href,attr"`
	Parse    string    `xml:"parse,attr"`
	Pointer  string    `xml:"xpointer,attr"`
	NameAttr string    `xml:"name,attr"`
	ValAttr  *string   `xml:"value,attr"`
	FinAttr  string    `xml:"final,attr"`
	Name     string    `xml:"name"`
	Value    *string   `xml:"value"`
	Final    string    `xml:"final"`
	Children []element `xml:",any"`
}

// read takes in one file; within are the files that include it.
func (c *conf) read(path string, within []string) error {
	if slices.Contains(within, path) || len(within) > 20 {
		return fmt.Errorf("%s: is included by itself: %s", path, strings.Join(within, " → "))
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	var root element
	if err := xml.Unmarshal(data, &root); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if root.XMLName.Local != "configuration" {
		return fmt.Errorf("%s: its root is <%s>, want <configuration>", path, root.XMLName.Local)
	}
	return c.take(root, path, append(slices.Clone(within), path))
}

func (c *conf) take(parent element, path string, within []string) error {
	for _, e := range parent.Children {
		var err error
		switch e.XMLName.Local {
		case "property":
			c.property(e, path)
		case "configuration":
			err = c.take(e, path, within)
		case "include":
			err = c.include(e, path, within)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *conf) property(e element, path string) {
	name, text := strings.TrimSpace(e.Name), e.Value
	if e.NameAttr != "" {
		name = e.NameAttr
	}
	if e.ValAttr != nil {
		text = e.ValAttr
	}
	if now, old := deprecated[name]; old {
		name = now
	}
	if name == "" || text == nil || c.values[name].final {
		return
	}
	c.values[name] = value{text: strings.TrimSpace(*text), file: path, final: strings.TrimSpace(e.Final) == "true" || e.FinAttr == "true"}
}

func (c *conf) include(e element, path string, within []string) error {
	if e.Parse != "" && e.Parse != "xml" || e.Pointer != "" {
		return fmt.Errorf("%s: xi:include of %s: only whole files of configuration are included", path, e.Href)
	}
	if strings.Contains(e.Href, "://") && !strings.HasPrefix(e.Href, "file://") {
		return fmt.Errorf("%s: xi:include of %s: only files of this machine are included", path, e.Href)
	}
	target := strings.TrimPrefix(e.Href, "file://")
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	err := c.read(target, within)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, child := range e.Children {
		if child.XMLName.Local == "fallback" {
			return c.take(child, path, within)
		}
	}
	return fmt.Errorf("%s: xi:include: %s", path, err) // not ErrNotExist: the file that includes is there
}

// get is the value of a key, "" where it isn't set.
func (c *conf) get(key string) (string, error) {
	v, ok := c.values[key]
	if !ok {
		return "", nil
	}
	text, err := c.expand(v.text, nil)
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w", v.file, key, err)
	}
	return text, nil
}

// words is the value of a key whose value is a list.
func (c *conf) words(key string) ([]string, error) {
	text, err := c.get(key)
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }), err
}

// expand replaces ${key}, ${env.NAME}, ${env.NAME:-else}, ${env.NAME-else} and
// the properties of a Java process that a configuration of HDFS may use. What
// Hadoop leaves as it stands, a name nobody knows, is an error here: as the
// address of a server it would only fail later.
func (c *conf) expand(text string, within []string) (string, error) {
	var out strings.Builder
	for {
		head, rest, found := strings.Cut(text, "${")
		out.WriteString(head)
		if !found {
			return out.String(), nil
		}
		name, tail, closed := strings.Cut(rest, "}")
		if !closed {
			out.WriteString("${" + rest)
			return out.String(), nil
		}
		if slices.Contains(within, name) {
			return "", fmt.Errorf("${%s} stands for itself", name)
		}
		replaced, err := c.variable(name, append(slices.Clone(within), name))
		if err != nil {
			return "", err
		}
		out.WriteString(replaced)
		text = tail
	}
}

func (c *conf) variable(name string, within []string) (string, error) {
	if env, ok := strings.CutPrefix(name, "env."); ok {
		env, other, hasOther := strings.Cut(env, "-")
		env = strings.TrimSuffix(env, ":")
		if text := c.env(env); text != "" {
			return text, nil
		}
		if hasOther {
			return other, nil
		}
		return "", fmt.Errorf("${%s}: $%s isn't set", name, env)
	}
	if v, ok := c.values[name]; ok {
		return c.expand(v.text, within)
	}
	switch name {
	case "user.name":
		u, err := user.Current()
		if err != nil {
			return "", err
		}
		return u.Username, nil
	case "user.home":
		return os.UserHomeDir()
	case "java.io.tmpdir":
		return os.TempDir(), nil
	}
	return "", fmt.Errorf("${%s} is not defined", name)
}
