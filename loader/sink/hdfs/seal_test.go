package hdfs

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"
	"testing"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
)

// script is a connection that answers with fixed bytes and keeps what is sent.
type script struct {
	net.Conn
	answer string
	sent   bytes.Buffer
	closed bool
}

func (s *script) Read(p []byte) (int, error)  { return copy(p, s.answer), nil }
func (s *script) Write(p []byte) (int, error) { return s.sent.Write(p) }
func (s *script) Close() error                { s.closed = true; return nil }

// packet is an RPC packet with this call id and body.
func packet(call int, body string) []byte {
	header := append([]byte{0x08, 2, 0x10, 0, 0x22, 3, 'a', 'b', 'c', 0x18}, binary.AppendUvarint(nil, uint64(uint32(call<<1^call>>31)))...)
	p := append(append([]byte{byte(len(header))}, header...), body...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...)
}

func TestRequestsAreWrappedAsTheNameNodeOffers(t *testing.T) {
	key := types.EncryptionKey{KeyType: 18, KeyValue: bytes.Repeat([]byte{7}, 32)}
	for _, c := range []struct {
		offer string
		asked string
		level int // -1 = refused
	}{
		{`realm="default",qop="auth",charset`, "", 0},
		{`realm="default",qop="auth-int"`, "", 1},
		{`realm="default",qop="auth-conf"`, "", 2},
		{`qop="auth,auth-int,auth-conf"`, "authentication", 2},
		{`qop="auth"`, "authentication,privacy", 0},
		{`qop="auth"`, "privacy", -1},
		{`qop="auth-int"`, "privacy", -1},
		{`qop="auth-conf"`, "integrity", 2},
		{"", "", 0},
		{"", "integrity", -1},
	} {
		wire := &script{answer: c.offer}
		least := 2
		for word := range strings.SplitSeq(c.asked, ",") {
			least = min(least, levelOf[word])
		}
		conn := &sealedConn{Conn: wire, key: key, least: least, level: -1}
		for _, bare := range [][]byte{[]byte("hrpc\x09\x00\xdf"), packet(-33, "negotiate")} {
			if _, err := conn.Write(bare); err != nil || !bytes.Equal(wire.sent.Bytes(), bare) {
				t.Fatalf("%s: before SASL is over %q was sent as %q (%v)", c.offer, bare, wire.sent.Bytes(), err)
			}
			wire.sent.Reset()
			if _, err := conn.Read(make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		request := packet(5, "secret name")
		n, err := conn.Write(request)
		if c.level < 0 {
			if err == nil || !wire.closed || wire.sent.Len() > 0 {
				t.Errorf("%s offered, %s asked: %v, sent %q", c.offer, c.asked, err, wire.sent.Bytes())
			}
			continue
		}
		if err != nil || n != len(request) {
			t.Fatalf("%s: %d, %v", c.offer, n, err)
		}
		if got := unwrapped(t, wire.sent.Bytes(), key, c.level); !bytes.Equal(got, request) {
			t.Errorf("%s: the NameNode gets %q, want %q", c.offer, got, request)
		}
		if readable := bytes.Contains(wire.sent.Bytes(), []byte("secret name")); readable != (c.level < 2) {
			t.Errorf("%s: the request is readable: %v", c.offer, readable)
		}
	}
}

// unwrapped is the packet a NameNode makes of what was sent.
func unwrapped(t *testing.T, sent []byte, key types.EncryptionKey, level int) []byte {
	t.Helper()
	if level == 0 {
		return sent
	}
	if !isSASL(sent[4:]) || int(binary.BigEndian.Uint32(sent)) != len(sent)-4 {
		t.Fatalf("%q is no SASL packet", sent)
	}
	body := sent[4+1+int(sent[4]):]
	_, n := binary.Uvarint(body)
	body = body[n+3:] // state, tag of the token
	_, n = binary.Uvarint(body)
	token := body[n:]
	if level == 2 {
		plain, err := crypto.DecryptMessage(token[gssapi.HdrLen:], key, keyusage.GSSAPI_INITIATOR_SEAL)
		if err != nil {
			t.Fatal(err)
		}
		if end := len(plain) - gssapi.HdrLen; !bytes.Equal(plain[end:], token[:gssapi.HdrLen]) {
			t.Error("the header isn't sealed in")
		}
		return plain[:len(plain)-gssapi.HdrLen]
	}
	var wrapped gssapi.WrapToken
	if err := wrapped.Unmarshal(token, false); err != nil {
		t.Fatal(err)
	}
	if _, err := wrapped.Verify(key, keyusage.GSSAPI_INITIATOR_SEAL); err != nil {
		t.Fatal(err)
	}
	return wrapped.Payload
}
