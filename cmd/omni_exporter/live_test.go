package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// send sends a request without keeping the connection.
func send(t *testing.T, client *http.Client, method, url string, header http.Header) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	maps.Copy(req.Header, header)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// awaitPage reads the page until it holds a text.
func (r *running) awaitPage(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		_, page := get(t, http.DefaultClient, "http://"+r.address+"/metrics", nil)
		if strings.Contains(page, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("page lacks %q:\n%s", want, page)
		}
	}
}

// TestReload has the file read again, by a signal and by a request.
func TestReload(t *testing.T) {
	address := upstream(t, engine)
	pipeline := func(name string) string {
		return fmt.Sprintf("pipelines: [{name: %s, stages: [{replicas: 3}], upstreams: [{static_configs: [{targets: [%q]}]}]}]\n", name, address)
	}
	file := write(t, "c.yml", pipeline("first"))
	change := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hangup := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, "--config.file="+file, "--web.enable-lifecycle")
	r.awaitPage(t, `vllm:x{pipeline="first",`)
	change(pipeline("second"))
	hangup()
	r.awaitPage(t, `vllm:x{pipeline="second",`)

	change("pipelines:\n  - stages: nowhere\n")
	hangup()
	r.awaitPage(t, "omni_exporter_config_last_reload_successful 0\n")
	r.awaitPage(t, `vllm:x{pipeline="second",`)
	status, body := send(t, http.DefaultClient, http.MethodPost, "http://"+r.address+"/-/reload", nil)
	if status != http.StatusInternalServerError || !strings.Contains(body, file+":2: pipelines[0].stages: ") {
		t.Errorf("a reload of a faulty file: status %d: %s", status, body)
	}
	if log := r.log.String(); !strings.Contains(log, "the one in force stays") || !strings.Contains(log, "pipelines[0].stages") {
		t.Errorf("the log does not say why:\n%s", log)
	}

	change(pipeline("third"))
	if status, body := send(t, http.DefaultClient, http.MethodPut, "http://"+r.address+"/-/reload", nil); status != http.StatusOK {
		t.Errorf("status %d: %s", status, body)
	}
	_, page := get(t, http.DefaultClient, "http://"+r.address+"/metrics", nil)
	for _, want := range []string{`vllm:x{pipeline="third",`, "omni_exporter_config_last_reload_successful 1\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("page lacks %q after the reload was answered:\n%s", want, page)
		}
	}
	r.ends(t)
}

// What flags say stays what they say.
func TestReloadOfFlags(t *testing.T) {
	r := start(t, "--upstream="+upstream(t, engine), "--stages=3", "--web.enable-lifecycle")
	if status, body := send(t, http.DefaultClient, http.MethodPost, "http://"+r.address+"/-/reload", nil); status != http.StatusOK {
		t.Errorf("status %d: %s", status, body)
	}
	r.awaitPage(t, "vllm:x{replica=\"2\",stage=\"0\"} 1\n")
	r.ends(t)
}

func TestQuit(t *testing.T) {
	r := start(t, "--web.enable-lifecycle")
	if status, body := send(t, http.DefaultClient, http.MethodPost, "http://"+r.address+"/-/quit", nil); status != http.StatusOK || body == "" {
		t.Errorf("status %d: %q", status, body)
	}
	select {
	case code := <-r.code:
		if code != 0 {
			t.Errorf("exit status %d, want 0", code)
		}
	case <-time.After(patience):
		t.Fatal("does not end")
	}
	r.code <- 0 // for the end of the test
}

// Without the flag, nobody on the network changes the program.
func TestLifecycleIsOff(t *testing.T) {
	r := start(t)
	for _, path := range []string{"/-/quit", "/-/reload"} {
		if status, _ := send(t, http.DefaultClient, http.MethodPost, "http://"+r.address+path, nil); status != http.StatusForbidden {
			t.Errorf("POST %s: status %d, want 403", path, status)
		}
	}
	if status, _ := get(t, http.DefaultClient, "http://"+r.address+"/debug/pprof/", nil); status != http.StatusNotFound {
		t.Errorf("profiles: status %d, want 404", status)
	}
	r.ends(t)
}

// A target that is the exporter itself is an error that says so.
func TestOwnAddressAsTarget(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	for _, listen := range []string{"127.0.0.1:" + port, ":" + port} {
		code, _, stderr := ended(t, "--web.listen-address="+listen, "--upstream=localhost:"+port)
		if code != 1 || !strings.Contains(stderr, "localhost:"+port) || !strings.Contains(stderr, "this exporter itself listens") {
			t.Errorf("listening at %s: exit status %d: %s", listen, code, stderr)
		}
	}
}

func TestShardFlags(t *testing.T) {
	for _, args := range [][]string{{"--shard.index=1"}, {"--shard.index=-1"}, {"--shard.count=-1"}, {"--shard.count=2", "--shard.index=2"}} {
		if code, _, stderr := ended(t, args...); code != 2 || !strings.Contains(stderr, "--shard.index") {
			t.Errorf("%q: exit status %d: %s", args, code, stderr)
		}
	}
}

// One connection too many is closed at once, and leaves those that are open alone.
func TestMaxConnections(t *testing.T) {
	r := start(t, "--web.max-connections=2")
	ask := func(conn net.Conn) (string, error) {
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return "", err
		}
		if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return "", err
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	var open []net.Conn
	for range 2 {
		conn, err := net.Dial("tcp", r.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := ask(conn); err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	third, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	if page, err := ask(third); err == nil {
		t.Errorf("a third connection is answered: %.100q", page)
	}
	page, err := ask(open[0])
	if err != nil || !strings.Contains(page, "omni_exporter_open_connections 2\n") || !strings.Contains(page, "omni_exporter_refused_connections_total 1\n") {
		t.Errorf("an open connection: %v\n%s", err, page)
	}
	for _, conn := range open {
		_ = conn.Close()
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // until they are known to be closed
		conn, err := net.Dial("tcp", r.address)
		if err != nil {
			t.Fatal(err)
		}
		page, _ = ask(conn)
		_ = conn.Close()
		if strings.Contains(page, "omni_exporter_open_connections 1\n") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("connections that were closed still count:\n%s", page)
		}
	}
	r.ends(t)
}

// Headers that are too long are refused before anything is done with them.
func TestLongHeaders(t *testing.T) {
	r := start(t)
	for name, head := range map[string]string{
		"header": "GET /metrics HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 2*maxHeaderBytes) + "\r\n\r\n",
		"target": "GET /probe?target=" + strings.Repeat("x", 2*maxHeaderBytes) + " HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", r.address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(conn, head)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: status %d, want 431", name, resp.StatusCode)
		}
		_ = conn.Close()
	}
	r.ends(t)
}

// clientCertificate returns a certificate of its own for a client, and the file that
// a server trusts it by.
func clientCertificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "client"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "client.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// TestEveryEndpointIsGuarded demands the client certificate and the password of
// web.config.file everywhere: not one path is left out.
func TestEveryEndpointIsGuarded(t *testing.T) {
	const user, password = "scraper", "correct-horse-battery"
	certFile, keyFile, roots := certificate(t)
	client, clientFile := clientCertificate(t)
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	webConfig := write(t, "web.yml", fmt.Sprintf(
		"tls_server_config: {cert_file: %q, key_file: %q, client_auth_type: RequireAndVerifyClientCert, client_ca_file: %q}\nbasic_auth_users: {%s: %q}\n",
		certFile, keyFile, clientFile, user, hash))
	target := upstream(t, engine)
	r := start(t, "--upstream="+target, "--stages=3", "--web.config.file="+webConfig, "--web.enable-lifecycle", "--web.enable-pprof")

	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	known := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{client}}}}
	authorized := http.Header{}
	(&http.Request{Header: authorized}).SetBasicAuth(user, password)
	wrong := http.Header{}
	(&http.Request{Header: wrong}).SetBasicAuth(user, password+"!")
	for _, endpoint := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/", 200},
		{"GET", "/metrics", 200},
		{"GET", "/probe?target=" + target, 200},
		{"GET", "/api/v1/targets", 200},
		{"GET", "/api/v1/status", 200},
		{"GET", "/api/v1/http_sd", 200},
		{"POST", "/api/v1/events", 202},
		{"GET", "/-/healthy", 200},
		{"GET", "/-/ready", 200},
		{"POST", "/-/reload", 200},
		{"GET", "/debug/pprof/cmdline", 200},
		{"GET", "/nothing", 404},
		{"POST", "/-/quit", 200},
	} {
		url := "https://" + r.address + endpoint.path
		req, err := http.NewRequestWithContext(t.Context(), endpoint.method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := stranger.Do(req); err == nil {
			_ = resp.Body.Close()
			t.Errorf("%s %s without a certificate: status %d", endpoint.method, endpoint.path, resp.StatusCode)
		}
		for what, header := range map[string]http.Header{"no password": nil, "a wrong password": wrong} {
			if status, body := send(t, known, endpoint.method, url, header); status != http.StatusUnauthorized || len(body) > 20 {
				t.Errorf("%s %s with %s: status %d: %.100q", endpoint.method, endpoint.path, what, status, body)
			}
		}
		status, body := send(t, known, endpoint.method, url, authorized)
		if status != endpoint.status {
			t.Errorf("%s %s: status %d, want %d", endpoint.method, endpoint.path, status, endpoint.status)
		}
		if endpoint.path == "/api/v1/http_sd" && !bytes.Contains([]byte(body), []byte(`"__scheme__":"https"`)) {
			t.Errorf("targets are not to be scraped over TLS: %s", body)
		}
	}
	r.ends(t) // as it was told
}
