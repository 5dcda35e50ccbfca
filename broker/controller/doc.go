// Package controller keeps the metadata of the cluster: which brokers there
// are, which topics and partitions, who leads each and which replicas are in
// sync, and all configurations.
//
// # How a change is made
//
// The files state*.go are pure. An Image is the metadata as of one Raft index
// and never changes. A request is a decision (createTopic, register,
// changeISR, …): a function of the image that returns records or a refusal.
// Records are facts; fold turns an image and records into the next image, the
// same on every node. What policy there is (placement, elections, the ELR, what
// names may be) is in the decisions and never runs when the log is replayed.
//
// On the active controller one goroutine (propose.go) gathers the requests that
// wait, decides them one after the other, appends what comes of them as one
// entry of the Raft log, waits until the entry is applied, and answers. So it
// commits first and acts second, and many concurrent requests share one sync.
// A decision that doesn't fit in one entry is cut where it may be; what a
// former controller left half done is finished by repair when a node takes over.
//
// An entry names the Raft term and the number of entries it was decided on.
// A node applies it only if it was appended in that term and the numbers fit;
// else it is dropped, on all nodes alike: nothing is applied to a state other
// than the one it was decided on.
//
// # Several nodes
//
// Every node holds the whole image and runs Raft (raft.go, over connections of
// broker/peer, stream.go); one, three or five of them vote (state_voters.go).
// A request is a value (state_ask.go) that any node brings to the active
// controller (ask.go), as a call over the peer network: it is decided there,
// and its answer names an index of the image. Who asked returns when this node's
// image is at that index. What met no active controller is brought again until
// the asker gives up; a request whose answer was lost only if it does no harm.
//
// A node joins (join.go) as one without a vote. It is known to Raft by its id
// and the id of its data directory, so that a wiped disk is another member,
// which takes the place of the old one once that is out of service. A voter that
// lost its metadata but kept its directory is refused: it may have voted. Who is
// unregistered leaves the quorum as well (forget.go); should it come back on its
// old data, or be replaced by a wiped disk while it was away, it asks why it
// hears of no leader, and ends with the answer.
//
// Raft knows a node by its id alone. Where it is reached stands in a book of the
// node's own (addresses.go), which follows what the brokers register and what a
// node that moved tells all others, leader or not.
//
// Brokers beat (heartbeats.go); the active controller keeps sessions in memory
// (state_session.go), from nothing when it takes over. Who is silent for a
// session is taken out of service, and at once whose connection of calls has
// ended while nobody listens at its address any more. The same sight makes the
// next voter stand for active controller at once (succession.go), where Raft's
// clock would wait.
//
// A leader whose disk hangs steps down (guard.go). One that is closed hands over.
// A follower commits what its leader's message vouches for and no more (vouch.go),
// and stores again what found no room after a cut (guard.go).
//
// What is called over the peer network, requests and answers being those of
// state_askcodec.go:
//
//	1 ask    request → answer
//	2 beat   broker | epoch i64 | index i64 | wants in u8 | wants out u8 | full u8 →
//	         flags u8 (1 out of service, 2 may end) | refusal
//	3 join   node, −1 none | directory uuid | flags u8 (1 passed on, 2 only moved) | address string |
//	         lowest and highest format level known i16 →
//	         node | cluster string | refusal string, empty = none
//
// # Format levels
//
// What the metadata may hold is settled by a level (state_format.go), a record
// itself. A cluster is founded at the newest level its founder knows. Each node
// says which levels it knows when it joins and when it registers; the level is
// raised when somebody asks for it and all brokers know the next one, and never
// lowered. A node that finds a level it doesn't know, in its log, in a snapshot
// or in the answer to its wish to join, ends and says so. What was written at
// lower levels stays readable.
//
// What nodes ask of each other has a version of its own, the first byte of each
// request; who gets one he doesn't know refuses it, and it counts as not made.
//
// # What is on disk
//
// All integers are big-endian. A uvarint is base 128, least significant group
// first, in its shortest form. A string is a uvarint of its length plus one,
// then the bytes; 0 is null where that is allowed. An array is a uvarint of its
// length plus one, then the elements. tags is a uvarint count of tagged fields,
// each uvarint tag, uvarint size, bytes, in ascending order of tag; a tag this
// build does not know is an error, as are unknown types and versions.
//
//	<data directory>/controller/
//	    stable                              the term and vote of this node, where the others are reached
//	    snapshots/<index>-<term>.snapshot   two of them; both 20 digits
//	    log/raft-0/                         the Raft log: a data directory of broker/log with one log
//
// The entry of Raft index i is the record at offset i-1 of the log, in a batch of
// its own that has the term as leader epoch: a log is cut between batches only,
// and Raft cuts it between any two entries.
//
//	key       version u8 = 1 | type of entry u8 (Raft's LogType) | term u64
//	value     the entry's data: Raft's configuration, or for a command an entry as below
//	timestamp when the leader appended it, ms; 0 = not known
//	header    "ext" = Raft's extensions, if there are any
//
// Entry:
//
//	format u8 = 1 | term u64 | sequence u64 | array of (uvarint length | record) | tags
//	tag 0: sha256 of the image before, as encoded below; in every 1024th entry
//
// At most 10,000 records and 256 KiB.
//
// Record: type u8 | version u8 = 0 | body | tags. The bodies, ids and epochs
// being i32 unless noted, a uuid 16 bytes, brokers an array of i32:
//
//	 1 cluster           id string
//	 2 format.level      level i16
//	 3 broker            id | incarnation uuid | directory uuid | epoch i64 (0 = index of the entry) |
//	                     array of (listener string | host string | port i32) | rack string | flags u8
//	                     (1 fenced, 2 shutting down, 4 disk full)
//	    tags: 0 lowest and highest format level it knows, i16 each
//	 4 broker change     id | epoch i64 | flags u8
//	 5 broker removal    id | epoch i64
//	 6 topic             name string | id uuid | internal u8
//	 7 topic removal     id uuid
//	 8 partition         topic uuid | index | leader | leader epoch | partition epoch | replicas brokers |
//	                     isr brokers | elr brokers | recovering u8
//	    tags: 0 brokers being added, 1 being removed
//	 9 partition change  topic uuid | index | partition epoch after it |
//	                     tags: 0 leader (a new leader epoch), 1 replicas, 2 isr, 3 elr, 4 recovering u8,
//	    5 brokers being added, 6 being removed
//	10 configuration     kind u8 (2 topic, 4 broker) | name string | key string | value string or null (unset)
//	11 producer ids      broker | broker epoch i64 | next id i64
//	12 node id           next id
//	13 image             index u64 | sequence u64; only as the first record of a snapshot
//
// Snapshot file, the body being an image:
//
//	"SLSN" | version u8 = 1 | index u64 | term u64 | index of the configuration u64 |
//	uvarint length, configuration of the quorum as Raft encodes it |
//	uvarint length, body | sha256 of all before
//
//	body: format u8 = 1 | array of (uvarint length | record), in the order image, cluster,
//	      format.level, producer ids, node id, brokers by id, configurations of all brokers, of each
//	      broker, then each topic by name with its configurations by key and its partitions
//
// Stable store:
//
//	"SLST" | version u8 = 1 | array of (key string | value string), by key | CRC-32C of all before u32
//
// with Raft's keys CurrentTerm, LastVoteTerm (u64), LastVoteCand, and ours:
// floor (u64), the last index of the log when the node was stopped cleanly.
//
// # Damage
//
// Open reads all of it: every byte of the stable store and the snapshots is
// under a checksum, every entry after the newest snapshot is decoded. A file
// that is damaged, missing beside others, or too short stops Open with an
// error that names it; it is never taken for an empty cluster. Only the tail of
// the log that a crash cut before its sync, which nobody was told of, is
// dropped by the log itself.
package controller
