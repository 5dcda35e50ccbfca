package mini

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Principal is who the clients of a cluster with Kerberos are.
const Principal = "sawlog@EXAMPLE.COM"

// Keytab is the file that holds the keys of Principal.
func (c *Cluster) Keytab() string { return filepath.Join(c.Kerberos, "client.keytab") }

// Site sets what the clients of a test find in their environment: Hadoop's
// configuration for a cluster with Kerberos and this protection of the wire, and a
// krb5.conf that asks for tickets of this lifetime. Those the cluster asks for live
// as long as it needs.
func (c *Cluster) Site(t *testing.T, protection string, lifetime time.Duration) {
	t.Helper()
	dir := t.TempDir()
	var site bytes.Buffer
	for _, kv := range [][2]string{
		{"hadoop.security.authentication", "kerberos"},
		{"dfs.namenode.kerberos.principal", "hdfs/localhost@EXAMPLE.COM"},
		{"hadoop.rpc.protection", protection},
		{"dfs.data.transfer.protection", protection},
	} {
		fmt.Fprintf(&site, "<property><name>%s</name><value>%s</value></property>", kv[0], kv[1])
	}
	krb5, err := os.ReadFile(filepath.Join(c.Kerberos, "client-krb5.conf"))
	if err != nil {
		t.Fatal(err)
	}
	krb5 = bytes.Replace(krb5, []byte("[libdefaults]"), fmt.Appendf(nil, "[libdefaults]\nticket_lifetime = %ds", int(lifetime.Seconds())), 1)
	for name, text := range map[string][]byte{"core-site.xml": fmt.Appendf(nil, "<configuration>%s</configuration>", site.Bytes()), "krb5.conf": krb5} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HADOOP_CONF_DIR", dir)
	t.Setenv("KRB5_CONFIG", filepath.Join(dir, "krb5.conf"))
	t.Setenv("KRB5CCNAME", filepath.Join(dir, "no-tickets"))
}

// OldKeytab is a keytab whose keys were good once: it has the same principals, and
// other keys, as after somebody changed the password.
//
//	5 2 · entries: size i32 · parts u16 · realm and parts (u16, bytes) · name type u32 · time u32 · version u8 · key type u16 · key (u16, bytes) · version u32
func (c *Cluster) OldKeytab(t *testing.T) (name string) {
	t.Helper()
	data, err := os.ReadFile(c.Keytab())
	if err != nil {
		t.Fatal(err)
	}
	for at := 2; at < len(data); {
		size := int(int32(binary.BigEndian.Uint32(data[at:])))
		entry := data[at+4 : at+4+max(size, -size)]
		at += 4 + len(entry)
		if size < 0 {
			continue // a hole
		}
		parts := int(binary.BigEndian.Uint16(entry))
		rest := entry[2:]
		for range parts + 1 {
			rest = rest[2+binary.BigEndian.Uint16(rest):]
		}
		key := rest[4+4+1+2:]
		for i := range binary.BigEndian.Uint16(key) {
			key[2+i] ^= 0x5a
		}
	}
	name = filepath.Join(t.TempDir(), "old.keytab")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
