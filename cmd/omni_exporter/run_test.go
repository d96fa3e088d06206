package main

import (
	"bytes"
	"context"
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
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/bcrypt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far beyond what anything awaited here takes.
const patience = time.Minute

// output keeps what a program writes while it runs.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// ended runs the program to its end and returns what it left.
func ended(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errs output
	code = run(ctx, args, &out, &errs)
	if ctx.Err() != nil {
		t.Fatalf("run %q did not end", args)
	}
	return code, out.String(), errs.String()
}

// running is a program that listens.
type running struct {
	address string
	log     *output
	stop    func()
	code    chan int
}

// start runs the program until the test ends, and waits until it listens.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &running{log: &output{}, stop: stop, code: make(chan int, 1)}
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.code <- run(ctx, append(args, "--web.listen-address=127.0.0.1:0"), io.Discard, r.log)
	}()
	t.Cleanup(func() {
		stop()
		<-over
		if t.Failed() {
			t.Logf("log of %q:\n%s", args, r.log)
		}
	})
	listening := regexp.MustCompile(`msg="Listening on" address=(\S+)`)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if found := listening.FindStringSubmatch(r.log.String()); found != nil {
			r.address = found[1]
			return r
		}
		select {
		case <-over:
			t.Fatalf("run %q ended with %d before it listened:\n%s", args, <-r.code, r.log)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("run %q does not listen:\n%s", args, r.log)
		}
	}
}

// ends interrupts the program and demands exit status 0.
func (r *running) ends(t *testing.T) {
	t.Helper()
	r.stop()
	select {
	case code := <-r.code:
		if code != 0 {
			t.Errorf("exit status %d after an interrupt, want 0:\n%s", code, r.log)
		}
	case <-time.After(patience):
		t.Fatalf("does not end:\n%s", r.log)
	}
}

// get reads a URL of the program without keeping the connection.
func get(t *testing.T, client *http.Client, url string, header http.Header) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	maps.Copy(req.Header, header)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func upstream(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func engine(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = io.WriteString(w, "# TYPE vllm:x gauge\nvllm:x{engine=\"2\"} 1\n")
}

// TestUsage demands exit status 2 and the flag for wrong usage, and 0 for help.
func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"--help"}, 0, "--config.file", ""},
		{[]string{"-h"}, 0, "--upstream", ""},
		{[]string{"--version"}, 0, "omni_exporter, version", ""},
		{[]string{"--nothing"}, 2, "", "--nothing"},
		{[]string{"an argument"}, 2, "", "an argument"},
		{[]string{"--web.max-requests=many"}, 2, "", "many"},
		{[]string{"--web.max-requests=-1"}, 2, "", "--web.max-requests"},
		{[]string{"--web.timeout-offset=-1s"}, 2, "", "--web.timeout-offset"},
		{[]string{"--web.telemetry-path=metrics"}, 2, "", "--web.telemetry-path"},
		{[]string{"--web.telemetry-path=/"}, 2, "", "--web.telemetry-path"},
		{[]string{"--web.telemetry-path=/-/healthy"}, 2, "", "--web.telemetry-path"},
		{[]string{"--web.telemetry-path=/{x"}, 2, "", "--web.telemetry-path"},
		{[]string{"--log.level=loud"}, 2, "", "one of debug,info,warn,error"},
		{[]string{"--log.format=xml"}, 2, "", "one of logfmt,json"},
		{[]string{"--config.file=x.yml", "--upstream=a:1"}, 2, "", "exclude each other"},
		{[]string{"--config.file=x.yml", "--stages=1"}, 2, "", "exclude each other"},
		{[]string{"--config.file=x.yml", "--fpm=tcp://a:1"}, 2, "", "exclude each other"},
	} {
		code, stdout, stderr := ended(t, test.args...)
		if code != test.code || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q; want %d, %q and %q", test.args, code, stdout, stderr, test.code, test.stdout, test.stderr)
		}
		if test.stderr != "" && stdout != "" {
			t.Errorf("%q: an error prints %q to standard output", test.args, stdout)
		}
	}
}

// TestFaultyConfiguration demands exit status 1, with file and line.
func TestFaultyConfiguration(t *testing.T) {
	faulty := write(t, "faulty.yml", "global:\n  scrape_timeout: soon\npipelins: []\n")
	unusable := write(t, "unusable.yml", "pipelines: [{stages: [{}], upstreams: [{tls_config: {ca_file: nowhere.pem}, scheme: https, static_configs: [{targets: [\"a:1\"]}]}]}]\n")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--config.file=" + faulty}, faulty + ":2:"},
		{[]string{"--config.file=" + faulty}, faulty + ":3:"},
		{[]string{"--config.file=" + faulty, "--config.check"}, faulty + ":2:"},
		{[]string{"--config.file=/nowhere/x.yml"}, "/nowhere/x.yml"},
		{[]string{"--upstream=nowhere"}, "--upstream: "},
		{[]string{"--upstream=a:1", "--stages=one"}, "--stages: "},
		{[]string{"--fpm=http://a:1"}, "--fpm: "},
		{[]string{"--config.check", "--upstream=a:1", "--upstream=b:1"}, "--stages"},
		{[]string{"--config.file=" + unusable, "--config.check"}, "nowhere.pem"},
	} {
		code, _, stderr := ended(t, test.args...)
		if code != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: exit status %d, stderr %q; want 1 and %q", test.args, code, stderr, test.want)
		}
	}
}

func TestConfigCheck(t *testing.T) {
	good := write(t, "good.yml", "pipelines: [{stages: [{name: a}]}]\n")
	for _, args := range [][]string{{"--config.check", "--config.file=" + good}, {"--config.check"}, {"--config.check", "--upstream=a:1"}} {
		code, stdout, stderr := ended(t, args...)
		if code != 0 || !strings.Contains(stdout, "valid") || stderr != "" {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// What a configuration holds that only shows when it is put to work ends the program
// with status 1 too.
func TestCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	noFile := write(t, "c.yml", "pipelines: [{stages: [{}], upstreams: [{static_configs: [{targets: [\"a:1\"]}], tls_config: {ca_file: nowhere.pem}}]}]\n")
	badWeb := write(t, "web.yml", "tls_server_config: {cert_file: nowhere.pem}\n")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--web.listen-address=" + taken.Addr().String()}, "address already in use"},
		{[]string{"--web.listen-address=127.0.0.1:0", "--config.file=" + noFile}, "nowhere.pem"},
		{[]string{"--web.listen-address=127.0.0.1:0", "--web.config.file=" + badWeb}, "key_file"},
		{[]string{"--web.listen-address=127.0.0.1:0", "--web.config.file=/nowhere/web.yml"}, "/nowhere/web.yml"},
	} {
		code, _, stderr := ended(t, test.args...)
		if code != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: exit status %d, stderr %q; want 1 and %q", test.args, code, stderr, test.want)
		}
	}
}

// TestFlagsAlone scrapes a server that flags name.
func TestFlagsAlone(t *testing.T) {
	r := start(t, "--upstream="+upstream(t, engine), "--stages=1,2")
	status, page := get(t, http.DefaultClient, "http://"+r.address+"/metrics", nil)
	if status != http.StatusOK || !strings.Contains(page, "\nvllm:x{replica=\"1\",stage=\"1\"} 1\n") {
		t.Errorf("status %d, page\n%s", status, page)
	}
	for _, family := range []string{"go_goroutines", "process_open_fds", "omni_exporter_build_info", "omni_exporter_target_up"} {
		if !strings.Contains(page, "# TYPE "+family+" gauge\n") {
			t.Errorf("page lacks %s", family)
		}
	}
	r.ends(t)
}

// Without any configuration there is an exporter, of events and its own health.
func TestNoConfiguration(t *testing.T) {
	r := start(t, "--web.disable-exporter-metrics", "--web.telemetry-path=/m")
	status, page := get(t, http.DefaultClient, "http://"+r.address+"/m", nil)
	if status != http.StatusOK || !strings.Contains(page, "omni_exporter_config_last_reload_successful 1\n") {
		t.Errorf("status %d, page\n%s", status, page)
	}
	if strings.Contains(page, "\ngo_goroutines") || strings.Contains(page, "\nprocess_") {
		t.Error("page holds metrics of the process")
	}
	if !strings.Contains(r.log.String(), "nothing to scrape") {
		t.Errorf("the log does not say that nothing is scraped:\n%s", r.log)
	}
	r.ends(t)
}

// TestTwoAtATime runs two in one process, one by a file, and one after them.
func TestTwoAtATime(t *testing.T) {
	address := upstream(t, engine)
	file := write(t, "c.yml", fmt.Sprintf("pipelines: [{name: p, stages: [{replicas: 3}], upstreams: [{static_configs: [{targets: [%q]}]}]}]\n", address))
	first, second := start(t, "--upstream="+address, "--stages=3"), start(t, "--config.file="+file, "--log.format=logfmt", "--log.level=debug")
	for r, want := range map[*running]string{
		first: "\nvllm:x{replica=\"2\",stage=\"0\"} 1\n", second: "\nvllm:x{pipeline=\"p\",replica=\"2\",stage=\"0\"} 1\n",
	} {
		if _, page := get(t, http.DefaultClient, "http://"+r.address+"/metrics", nil); !strings.Contains(page, want) {
			t.Errorf("page lacks %q:\n%s", want, page)
		}
	}
	first.ends(t)
	if status, _ := get(t, http.DefaultClient, "http://"+second.address+"/-/ready", nil); status != http.StatusOK {
		t.Errorf("the second is gone with the first: status %d", status)
	}
	second.ends(t)
	start(t).ends(t)
}

// TestShutdownLetsRequestsEnd interrupts the program while it waits for an upstream:
// the request under way is answered whole.
func TestShutdownLetsRequestsEnd(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	r := start(t, "--stages=3", "--upstream="+upstream(t, func(w http.ResponseWriter, req *http.Request) {
		close(asked)
		<-release
		engine(w, req)
	}))
	answered := make(chan string, 1)
	go func() {
		_, page := get(t, http.DefaultClient, "http://"+r.address+"/metrics", nil)
		answered <- page
	}()
	<-asked
	r.stop()
	for deadline := time.Now().Add(patience); !strings.Contains(r.log.String(), "shutting down"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("does not shut down")
		}
	}
	close(release)
	if page := <-answered; !strings.Contains(page, "\nvllm:x{replica=\"2\",stage=\"0\"} 1\n") {
		t.Errorf("the request under way got\n%s", page)
	}
	r.ends(t)
	if conn, err := net.Dial("tcp", r.address); err == nil {
		_ = conn.Close()
		t.Error("still listens")
	}
}

// certificate writes a certificate of its own for 127.0.0.1, and its key.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	return write(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))),
		write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))), pool
}

// TestWebConfig serves over TLS to those who know the password, and scrapes another
// exporter that does so: both sides of Prometheus's own options.
func TestWebConfig(t *testing.T) {
	const user, password = "scraper", "correct-horse-battery"
	certFile, keyFile, roots := certificate(t)
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	webConfig := write(t, "web.yml", fmt.Sprintf(
		"tls_server_config: {cert_file: %q, key_file: %q}\nbasic_auth_users: {%s: %q}\n", certFile, keyFile, user, hash))
	inner := start(t, "--upstream="+upstream(t, engine), "--stages=3", "--web.config.file="+webConfig, "--log.level=debug")

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	url := "https://" + inner.address + "/metrics"
	if status, _ := get(t, client, url, nil); status != http.StatusUnauthorized {
		t.Errorf("without a password: status %d, want 401", status)
	}
	authorized := http.Header{}
	r := &http.Request{Header: authorized}
	r.SetBasicAuth(user, password)
	if status, page := get(t, client, url, authorized); status != http.StatusOK || !strings.Contains(page, "\nvllm:x{") {
		t.Errorf("with the password: status %d\n%s", status, page)
	}

	file := write(t, "c.yml", fmt.Sprintf(`
pipelines:
- stages: [{replicas: 3}]
  upstreams:
  - scheme: https
    static_configs: [{targets: [%q]}]
    tls_config: {ca_file: %q}
    basic_auth: {username: %s, password: %s}
`, inner.address, certFile, user, password))
	outer := start(t, "--config.file="+file, "--log.level=debug")
	_, page := get(t, http.DefaultClient, "http://"+outer.address+"/metrics", nil)
	if !strings.Contains(page, "\nvllm:x{replica=\"2\",stage=\"0\"} 1\n") {
		t.Errorf("through TLS and a password:\n%s", page)
	}
	_, landing := get(t, http.DefaultClient, "http://"+outer.address+"/", nil)
	outer.ends(t)
	inner.ends(t)
	for what, text := range map[string]string{"log": outer.log.String(), "inner log": inner.log.String(), "page": page, "landing page": landing} {
		if strings.Contains(text, password) || strings.Contains(text, string(hash)) {
			t.Errorf("the %s holds a secret:\n%s", what, text)
		}
	}
}

// A log in JSON is JSON to its last line, of libraries too.
func TestJSONLog(t *testing.T) {
	code, _, stderr := ended(t, "--log.format=json", "--web.listen-address=127.0.0.1:0", "--web.config.file=/nowhere/web.yml")
	if code != 1 {
		t.Errorf("exit status %d", code)
	}
	lines := 0
	for line := range strings.Lines(stderr) {
		lines++
		if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "}\n") {
			t.Errorf("line %q", line)
		}
	}
	if lines < 2 {
		t.Errorf("%d lines, want the start and the end:\n%s", lines, stderr)
	}
}
