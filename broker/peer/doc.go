// Package peer connects the brokers of one cluster: a listener that clients
// never use, connections whose two ends have proved to belong to the same
// cluster, and calls over them.
//
// # Handshake
//
// Integers are big-endian. The side that dialed and the side that accepted send
//
//	dialer    hello
//	acceptor  hello
//	dialer    proof
//	acceptor  verdict, and if it is 0: proof
//	dialer    kind u8: what the connection carries from here on
//
//	hello    "SLPR" | version u8 = 1 | flags u8 (1 = has a key) | node i32 (−1 none) |
//	         directory 16 bytes | incarnation 16 bytes | nonce 32 bytes |
//	         length u8, cluster id (empty: not a member yet)
//	proof    HMAC-SHA256(key, "sawlog peer" | 'D' or 'A', who proves | hello of the dialer |
//	         hello of the acceptor), 32 bytes; an absent key is the empty one
//	verdict  u8: 0 = welcome, else the length of the words that say why not
//
// A proof covers both nonces and both identities and names its side, so neither
// an old one nor the other side's own is of any use. Nothing after the
// handshake is encrypted.
//
// # Kinds
//
//	'R'  a stream of Raft's
//	'K'  Kafka's frames: fetches of replicas
//	'C'  calls
//
// # Calls
//
// Both ways over one connection, answers in any order:
//
//	frame     length u32 of what follows, at most 16 MiB + 9 | id u64 | what u8 | body
//	request   what = the method, body = its argument
//	answer    what = 0: body = the result; 1: body = the words of an error;
//	          2: the same, and nothing was done: nobody serves the method
package peer
