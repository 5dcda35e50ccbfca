package hdfs

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Levels of hadoop.rpc.protection, in the words of SASL, the strongest last.
var levels = []string{"auth", "auth-int", "auth-conf"}

// levelOf has Hadoop's words for them.
var levelOf = map[string]int{"": 0, "authentication": 0, "integrity": 1, "privacy": 2}

// sealedConn is a connection to a NameNode whose requests are as protected as
// its answers. The library unwraps answers and sends requests bare, which
// NameNodes take: the names of all files would go over the wire for everyone to
// read.
//
//	hrpc header · SASL packets (call id −33) · from then on each packet the library
//	writes becomes one SASL packet more: header, then RpcSaslProto{WRAP, token},
//	token = GSS wrap token (RFC 4121 §4.2.4) of the packet with its length
//
// What the NameNode offers stands in its first SASL answer, as the challenge of
// another mechanism; the library goes by the strongest, and so does this.
type sealedConn struct {
	net.Conn
	key   types.EncryptionKey // of the ticket for the NameNode
	least int                 // index into levels: what the configuration asks for
	seen  []byte              // answers before the first request
	level int                 // index into levels, −1 = not agreed upon yet
}

// sealed dials connections of which at least the asked protection is demanded.
func sealed(dial dialFunc, l *login, asked string) dialFunc {
	least := len(levels) - 1
	for word := range strings.SplitSeq(asked, ",") {
		least = min(least, levelOf[strings.TrimSpace(word)])
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := l.renew(addr); err != nil {
			return nil, err
		}
		key, err := l.key(addr)
		if err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &sealedConn{Conn: conn, key: key, least: least, level: -1}, nil
	}
}

func (c *sealedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.level < 0 {
		c.seen = append(c.seen, p[:n]...)
	}
	return n, err
}

func (c *sealedConn) Write(p []byte) (int, error) {
	if len(p) < 8 || string(p[:4]) == "hrpc" || isSASL(p[4:]) {
		return c.Conn.Write(p)
	}
	if c.level < 0 {
		if err := c.agree(); err != nil {
			_ = c.Close() // nothing goes over it
			return 0, err
		}
	}
	if c.level == 0 {
		return c.Conn.Write(p)
	}
	token, err := wrap(p, c.key, c.level == 2)
	if err != nil {
		return 0, err
	}
	if _, err := c.Conn.Write(wrapPacket(token)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// agree finds the level of this connection.
func (c *sealedConn) agree() error {
	c.level = 0
	text := string(c.seen)
	if _, offered, found := strings.Cut(text, `qop="`); found {
		offered, _, _ = strings.Cut(offered, `"`)
		for word := range strings.SplitSeq(offered, ",") {
			for i, level := range levels {
				if strings.TrimSpace(word) == level {
					c.level = max(c.level, i)
				}
			}
		}
	}
	c.seen = nil
	if c.level < c.least {
		return fmt.Errorf("the NameNode protects its connections by %s, hadoop.rpc.protection here wants %s", levels[c.level], levels[c.least])
	}
	return nil
}

// saslCall is the call id of SASL packets (AuthProtocol.SASL).
const saslCall = -33

// isSASL tells whether a packet, without its length, is one of SASL: by field 3
// of its RpcRequestHeaderProto.
func isSASL(packet []byte) bool {
	size, n := binary.Uvarint(packet)
	if n <= 0 || size > uint64(len(packet)-n) {
		return false
	}
	header := packet[n : n+int(size)]
	for len(header) > 0 {
		tag, n := binary.Uvarint(header)
		if n <= 0 {
			return false
		}
		header = header[n:]
		value, n := binary.Uvarint(header)
		if n <= 0 {
			return false
		}
		header = header[n:]
		switch {
		case tag == 3<<3: // zigzag
			return int64(value>>1)^-int64(value&1) == saslCall
		case tag&7 == 2:
			header = header[min(value, uint64(len(header))):]
		}
	}
	return false
}

// wrap is the GSS wrap token of a message from who began the connection:
// encrypted, or only signed.
func wrap(message []byte, key types.EncryptionKey, encrypt bool) ([]byte, error) {
	if !encrypt {
		token, err := gssapi.NewInitiatorWrapToken(message, key)
		if err != nil {
			return nil, err
		}
		return token.Marshal()
	}
	kind, err := crypto.GetEtype(key.KeyType)
	if err != nil {
		return nil, err
	}
	const flagSealed = 0x02
	header := [gssapi.HdrLen]byte{0x05, 0x04, flagSealed, gssapi.FillerByte}
	_, secret, err := kind.EncryptMessage(key.KeyValue, append(append([]byte{}, message...), header[:]...), keyusage.GSSAPI_INITIATOR_SEAL)
	if err != nil {
		return nil, err
	}
	return append(header[:], secret...), nil
}

// wrapPacket is an RPC packet that holds RpcSaslProto{state: WRAP, token}.
func wrapPacket(token []byte) []byte {
	// rpcKind PROTOCOL_BUFFER, rpcOp FINAL_PACKET, callId −33, no client id
	body := []byte{8, 0x08, 2, 0x10, 0, 0x18, 65, 0x22, 0}
	message := append([]byte{0x10, 5, 0x1a}, binary.AppendUvarint(nil, uint64(len(token)))...) // state WRAP, token
	message = append(message, token...)
	body = append(binary.AppendUvarint(body, uint64(len(message))), message...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}
