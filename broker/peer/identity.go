package peer

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"sawlog/offsets"
)

// Identity is who stands at one end of a connection.
type Identity struct {
	Cluster     string           // "" = not a member yet
	Node        offsets.BrokerID // NoBroker = has none yet
	Directory   [16]byte         // of its data directory
	Incarnation [16]byte         // of its process
}

// Conn is a connection whose ends know each other.
type Conn struct {
	net.Conn
	Remote Identity
}

// Kind is what a connection carries.
type Kind byte

// The kinds.
const (
	Raft  Kind = 'R'
	Kafka Kind = 'K'
	Calls Kind = 'C'
)

// ErrRefused: the two sides don't belong together.
var ErrRefused = errors.New("refused by the handshake")

// errForeign: the other side has the key, and is of another cluster.
var errForeign = fmt.Errorf("%w: of another cluster", ErrRefused)

// WrongNodeError tells that another node answers at an address.
type WrongNodeError struct {
	Addr      string
	Want, Got offsets.BrokerID
}

func (e *WrongNodeError) Error() string {
	return fmt.Sprintf("node %d answers at %s, not node %d", e.Got, e.Addr, e.Want)
}

const (
	magic      = "SLPR"
	version    = 1
	nonceSize  = 32
	helloFixed = len(magic) + 1 + 1 + 4 + 16 + 16 + nonceSize + 1
	keyed      = 1
	maxCluster = 255
)

// appendHello writes the hello of an identity with a new nonce.
func appendHello(id Identity, key []byte) ([]byte, error) {
	if len(id.Cluster) > maxCluster {
		return nil, fmt.Errorf("peer: cluster id of %d bytes", len(id.Cluster))
	}
	var flags byte
	if key != nil {
		flags = keyed
	}
	b := append([]byte(magic), version, flags)
	b = binary.BigEndian.AppendUint32(b, uint32(id.Node))
	b = append(b, id.Directory[:]...)
	b = append(b, id.Incarnation[:]...)
	var nonce [nonceSize]byte
	_, _ = rand.Read(nonce[:]) // never fails
	b = append(b, nonce[:]...)
	return append(append(b, byte(len(id.Cluster))), id.Cluster...), nil
}

// readHello reads a hello: its bytes, who sent it and whether it has a key.
func readHello(r io.Reader) (raw []byte, id Identity, hasKey bool, err error) {
	raw = make([]byte, helloFixed, helloFixed+maxCluster)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, id, false, err
	}
	switch {
	case !bytes.HasPrefix(raw, []byte(magic)):
		return nil, id, false, fmt.Errorf("%w: no peer of ours speaks so: %q", ErrRefused, raw[:len(magic)])
	case raw[len(magic)] != version:
		return nil, id, false, fmt.Errorf("%w: handshake version %d, this build knows %d", ErrRefused, raw[len(magic)], version)
	}
	at := raw[len(magic)+1:]
	hasKey = at[0]&keyed != 0
	id.Node = offsets.BrokerID(int32(binary.BigEndian.Uint32(at[1:])))
	copy(id.Directory[:], at[5:])
	copy(id.Incarnation[:], at[21:])
	n := int(raw[helloFixed-1])
	raw = raw[:helloFixed+n]
	if _, err := io.ReadFull(r, raw[helloFixed:]); err != nil {
		return nil, id, false, err
	}
	id.Cluster = string(raw[helloFixed:])
	return raw, id, hasKey, nil
}

// proof is what one side ('D' or 'A') sends to show that it has the key.
func proof(key []byte, side byte, dialer, acceptor []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte("sawlog peer"))
	m.Write([]byte{side})
	m.Write(dialer)
	m.Write(acceptor)
	return m.Sum(nil)
}

// readProof checks the other side's proof.
func readProof(r io.Reader, want []byte) error {
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil {
		return err
	}
	if !hmac.Equal(got, want) {
		return fmt.Errorf("%w: the cluster keys differ", ErrRefused)
	}
	return nil
}

// sameCluster tells that two nodes may be of one cluster.
func sameCluster(self, other Identity) error {
	if self.Cluster != "" && other.Cluster != "" && self.Cluster != other.Cluster {
		return fmt.Errorf("%w: a broker of cluster %s met one of %s", errForeign, self.Cluster, other.Cluster)
	}
	return nil
}

// keyedAlike tells that both have a key, or none has.
func keyedAlike(self, other bool) error {
	if self != other {
		return fmt.Errorf("%w: one side has a cluster key, the other has none", ErrRefused)
	}
	return nil
}

// greet is the handshake of the side that dialed.
func greet(c net.Conn, self Identity, key []byte, k Kind) (Identity, error) {
	mine, err := appendHello(self, key)
	if err != nil {
		return Identity{}, err
	}
	if _, err := c.Write(mine); err != nil {
		return Identity{}, err
	}
	theirs, other, hasKey, err := readHello(c)
	if err != nil {
		return other, err
	}
	if err := keyedAlike(key != nil, hasKey); err != nil {
		return other, err
	}
	if _, err := c.Write(proof(key, 'D', mine, theirs)); err != nil {
		return other, err
	}
	if err := sameCluster(self, other); err != nil {
		return other, err
	}
	if err := readVerdict(c); err != nil {
		return other, err
	}
	if err := readProof(c, proof(key, 'A', mine, theirs)); err != nil {
		return other, err
	}
	_, err = c.Write([]byte{byte(k)})
	return other, err
}

func readVerdict(r io.Reader) error {
	var n [1]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return err
	}
	if n[0] == 0 {
		return nil
	}
	words := make([]byte, n[0])
	if _, err := io.ReadFull(r, words); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", ErrRefused, words)
}

// welcome is the handshake of the side that accepted.
func welcome(c net.Conn, self Identity, key []byte) (Identity, Kind, error) {
	theirs, other, hasKey, err := readHello(c)
	if err != nil {
		return other, 0, err
	}
	mine, err := appendHello(self, key)
	if err != nil {
		return other, 0, err
	}
	if _, err := c.Write(mine); err != nil {
		return other, 0, err
	}
	refused := keyedAlike(key != nil, hasKey)
	if refused == nil {
		refused = readProof(c, proof(key, 'D', theirs, mine))
	}
	if refused == nil {
		refused = sameCluster(self, other)
	}
	if refused != nil {
		words := refused.Error()
		words = words[:min(len(words), 255)]
		_, _ = c.Write(append([]byte{byte(len(words))}, words...)) // it is being refused anyway
		return other, 0, refused
	}
	if _, err := c.Write(append([]byte{0}, proof(key, 'A', theirs, mine)...)); err != nil {
		return other, 0, err
	}
	var k [1]byte
	_, err = io.ReadFull(c, k[:])
	return other, Kind(k[0]), err
}
