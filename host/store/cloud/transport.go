package cloud

import (
	"net"
	"net/http"
	"time"
)

// Settings of a store's connections.
const (
	// idleConns is how many idle connections to one server stay open. That is more than
	// a host uses at once; otherwise each burst of requests would make new ones. There
	// is no bound on connections in use: a caller that reads bodies slowly must not keep
	// renewals waiting.
	idleConns   = 256
	idleTimeout = 90 * time.Second
	// dialTimeout and tlsTimeout are no longer than any request may take.
	dialTimeout = 10 * time.Second
	tlsTimeout  = 10 * time.Second
	keepAlive   = 15 * time.Second
	// Under HTTP/2 all requests share a connection, and giving up a request does not
	// close it. If a network drops the connection's packets, every renewal fails until
	// TCP gives up after a quarter of an hour. Pings find that out sooner.
	pingAfter = 10 * time.Second
	pingLimit = 5 * time.Second
)

// Transport returns a new HTTP transport. Each store has one of its own, so that closing
// its idle connections does not close another's.
func Transport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   tlsTimeout,
		ExpectContinueTimeout: time.Second,
	}
	Tune(t)
	return t
}

// Tune makes an SDK's own transport keep connections as Transport does.
func Tune(t *http.Transport) {
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 0, idleConns, 0
	t.IdleConnTimeout = idleTimeout
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingLimit}
}
