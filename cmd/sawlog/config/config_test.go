package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const token = "0123456789abcdef0123456789abcdef"

// held writes a file with a mode.
func held(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestToken: the file of a token is its owner's business, what stands in it fits
// into a header, and no complaint tells it.
func TestToken(t *testing.T) {
	root := os.Getuid() == 0
	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		says       string // "" = it is taken
	}{
		{"as it is made", token + "\n", 0o600, ""},
		{"read only", token, 0o400, ""},
		{"others read it", token, 0o644, "mode 0644"},
		{"others write it", token, 0o602, "mode 0602"},
		{"the group writes it", token, 0o660, "mode 0660"},
		{"the group runs it", token, 0o610, "mode 0610"},
		{"short", token[:15], 0o600, "holds 15 bytes, a secret has 16 at least"},
		{"empty", "\n", 0o600, "holds 0 bytes"},
		{"two lines", token + "\n" + token, 0o600, "in one line"},
		{"not ASCII", token + "ü", 0o600, "ASCII"},
		{"the group reads it", token, 0o640, map[bool]string{false: "mode 0640"}[root]}, // root's may be
	} {
		path := held(t, c.text, c.mode)
		got, err := ReadToken(path)
		if c.says == "" && (err != nil || string(got) != token) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.says)
		}
		if err != nil && strings.Contains(err.Error(), token) {
			t.Errorf("%s: the token is told: %v", c.name, err)
		}
	}
	if _, err := ReadToken(token); err == nil || strings.Contains(err.Error(), token) {
		t.Errorf("a token where its file should be named: %v", err)
	}
}

// TestBeyondLoopback: what other machines reach by HTTP wants a token, or
// somebody's word that it needs none.
func TestBeyondLoopback(t *testing.T) {
	file := held(t, token, 0o600)
	for _, c := range []struct {
		flags map[string]string
		says  string
	}{
		{map[string]string{"http": "127.0.0.1:1"}, ""},
		{map[string]string{"http": "localhost:1"}, ""},
		{map[string]string{"http": "[::1]:1"}, ""},
		{map[string]string{"http": "127.0.0.1:1", "http-token": file}, ""},
		{map[string]string{"http": "0.0.0.0:1"}, "--http-token FILE"},
		{map[string]string{"http": ":1"}, "--http-token FILE"},
		{map[string]string{"http": "10.0.0.1:1"}, "--insecure"},
		{map[string]string{"http": "10.0.0.1:1", "insecure": "true"}, ""},
		{map[string]string{"http": "10.0.0.1:1", "http-token": file}, ""},
		{map[string]string{"http": "10.0.0.1:1", "http-token": held(t, token, 0o644)}, "chmod 600"},
		{map[string]string{"http": "10.0.0.1:1", "insecure": "true", "http-token": held(t, token, 0o644)}, "chmod 600"},
	} {
		cfg, err := Load("", c.flags, nil)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v: %v, want %q", c.flags, err, c.says)
		}
		if given := c.flags["http-token"] != ""; err == nil && given != (string(cfg.HTTPToken) == token) {
			t.Errorf("%v: the token is %q", c.flags, cfg.HTTPToken)
		}
	}
	cfg, err := Load("", nil, func(name string) (string, bool) { return file, name == "SAWLOG_HTTP_TOKEN" })
	if err != nil || string(cfg.HTTPToken) != token {
		t.Errorf("by the environment: %q, %v", cfg.HTTPToken, err)
	}
	for _, v := range cfg.Values {
		if strings.Contains(v.Value, token) {
			t.Errorf("config view would show the token: %+v", v)
		}
	}
}
