package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and
// DescribeDelegationToken, versions 1–3, 1–2, 1–2 and 1–3 (KIP-48): refused as
// on every connection that isn't authenticated.

// The principal of a connection nobody authenticated.
const (
	anonymousType = "User"
	anonymousName = "ANONYMOUS"
)

func (b *Broker) createDelegationToken(r *kmsg.CreateDelegationTokenRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.CreateDelegationTokenResponse)
	m.ErrorCode = kerr.DelegationTokenRequestNotAllowed.Code
	m.PrincipalType, m.PrincipalName = anonymousType, anonymousName
	m.TokenRequesterPrincipalType, m.TokenRequesterPrincipalName = anonymousType, anonymousName
	m.IssueTimestamp, m.ExpiryTimestamp, m.MaxTimestamp = -1, -1, -1
	m.HMAC = []byte{}
	return m
}

func (b *Broker) renewDelegationToken(r *kmsg.RenewDelegationTokenRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.RenewDelegationTokenResponse)
	m.ErrorCode, m.ExpiryTimestamp = kerr.DelegationTokenRequestNotAllowed.Code, -1
	return m
}

func (b *Broker) expireDelegationToken(r *kmsg.ExpireDelegationTokenRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.ExpireDelegationTokenResponse)
	m.ErrorCode, m.ExpiryTimestamp = kerr.DelegationTokenRequestNotAllowed.Code, -1
	return m
}

func (b *Broker) describeDelegationToken(r *kmsg.DescribeDelegationTokenRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DescribeDelegationTokenResponse)
	m.ErrorCode = kerr.DelegationTokenRequestNotAllowed.Code
	return m
}
