package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SaslHandshake, versions 0–1 (KIP-43, KIP-152), and SaslAuthenticate, versions
// 0–2: refused with ILLEGAL_SASL_STATE, as on every listener without SASL. A
// client that was told to authenticate learns why it can't.

func (b *Broker) saslHandshake(r *kmsg.SASLHandshakeRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.SASLHandshakeResponse)
	m.ErrorCode = kerr.IllegalSaslState.Code
	return m
}

func (b *Broker) saslAuthenticate(r *kmsg.SASLAuthenticateRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	m.ErrorCode, m.ErrorMessage = codeAndText(refuse(kerr.IllegalSaslState, "SaslAuthenticate request received after successful authentication"))
	m.SASLAuthBytes = []byte{}
	return m
}
