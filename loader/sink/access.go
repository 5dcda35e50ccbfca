package sink

import "time"

// Access says how a root is reached and how its files are kept, where the URI
// doesn't say it all. It names files on the node, never what stands in them,
// and is no part of a plan: it can't change a byte of a data set. The zero value
// is for stores that need nothing, and for those who find all in
// $HADOOP_CONF_DIR.
type Access struct {
	Namenodes   []string `json:"namenodes,omitempty"`   // HOST[:PORT] of a name service; empty = the URI's host, or what Hadoop's configuration says of it
	User        string   `json:"user,omitempty"`        // without Kerberos; empty = $HADOOP_USER_NAME, or the user of the process
	Keytab      string   `json:"keytab,omitempty"`      // path; empty = the tickets of $KRB5CCNAME where Kerberos is asked for
	Principal   string   `json:"principal,omitempty"`   // NAME[/HOST]@REALM in the keytab
	Replication int      `json:"replication,omitempty"` // copies of a block; 0 = the store's default
	BlockSize   int64    `json:"block_size,omitempty"`  // bytes; 0 = the store's default
	// Patience is how long a store that is away is waited for in one call,
	// nanoseconds; 0 = a minute.
	Patience time.Duration `json:"patience,omitempty"`
}
