package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// serveUpstreams serves that many servers' pages on loopback, in one process, and
// prints their addresses, one a line. Each answer is the page or, every other time,
// the page with some of its values changed, made beforehand: what is measured is the
// proxy. It ends with its standard input.
func serveUpstreams(args []string) error {
	f := flag.NewFlagSet(roleUpstreams, flag.ContinueOnError)
	n := f.Int("n", 1, "servers")
	size := f.Int("size", 0, "bytes of a page; 0: what one engine has")
	percent := f.Int("changed", 30, "percent of the lines that change from page to page")
	if err := f.Parse(args); err != nil {
		return err
	}
	page, err := enginePage(1)
	if err != nil {
		return err
	}
	if *size > 0 {
		page = cut(page, *size)
	}
	for i := range *n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("upstream %d: %w", i, err)
		}
		fmt.Println(l.Addr())
		server := &http.Server{Handler: pages(ownPage(page, i), *percent), ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(l) }()
	}
	fmt.Println()
	waitForInput()
	return nil
}

// cut returns about that many bytes of a page, in whole lines.
func cut(page []byte, size int) []byte {
	if len(page) <= size {
		return page
	}
	return page[:bytes.LastIndexByte(page[:size], '\n')+1]
}

// ownPage gives a server's engine a name of its own, so that no two servers have
// the same series.
func ownPage(page []byte, i int) []byte {
	return bytes.ReplaceAll(page, []byte(`engine="0"`), []byte(`engine="`+strconv.Itoa(i)+`"`))
}

func pages(page []byte, percent int) http.Handler {
	bodies := [2][]byte{page, changed(page, percent, 1)}
	var mu sync.Mutex
	n := 0
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		body := bodies[n%2]
		n++
		mu.Unlock()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	})
}

// serveConcatenated is the least that a merging proxy can do: it fetches all pages
// at once and sends them one after the other, whether or not that is a valid page.
func serveConcatenated(targets []string) error {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 2, MaxIdleConns: 4096}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	fmt.Println()
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bodies := fetchAll(r.Context(), client, targets)
		size := 0
		for _, b := range bodies {
			size += len(b)
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(size))
		for _, b := range bodies {
			_, _ = w.Write(b)
		}
	})}
	go func() { _ = server.Serve(l) }()
	waitForInput()
	return nil
}

func fetchAll(ctx context.Context, client *http.Client, targets []string) [][]byte {
	bodies := make([][]byte, len(targets))
	var all sync.WaitGroup
	for i, t := range targets {
		all.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t+"/metrics", nil)
			if err != nil {
				return
			}
			resp, err := client.Do(req)
			if err != nil {
				return
			}
			defer func() { _ = resp.Body.Close() }()
			var body bytes.Buffer
			body.Grow(int(max(resp.ContentLength, 0)) + bytes.MinRead)
			_, _ = io.Copy(&body, resp.Body)
			bodies[i] = body.Bytes()
		})
	}
	all.Wait()
	return bodies
}

// waitForInput returns when the process that started this one has gone.
func waitForInput() {
	_, _ = io.Copy(io.Discard, os.Stdin)
}
