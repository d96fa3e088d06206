//go:build integration

package integration

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync"
	"testing"
)

// TestOverlappingScrapesShareOne sends fifty requests while the upstream holds its answer back: it is asked once.
func TestOverlappingScrapesShareOne(t *testing.T) {
	const callers = 50
	upstream := startPeer(t, "--hold")
	// More callers than the default of --web.max-requests.
	exporter, url := startExporter(t, "--upstream="+upstream, "--stages=1", "--web.max-requests=0")

	// A request is sent when it is written whole; one that the exporter reads only after the release is still within
	// min_scrape_interval of the shared page.
	var sent, answered sync.WaitGroup
	sent.Add(callers)
	answers := make(chan error, callers)
	for range callers {
		answered.Go(func() {
			written := sync.OnceFunc(sent.Done)
			defer written() // a request that failed before is not waited for
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				WroteRequest: func(httptrace.WroteRequestInfo) { written() },
			})
			_, err := fetch(ctx, url+"/metrics", acceptText)
			answers <- err
		})
	}
	sent.Wait()
	await(t, "scrape of the upstream", readyTimeout, exporter, func(ctx context.Context) error {
		scrapes, err := fetch(ctx, "http://"+upstream+"/scrapes", "")
		if err == nil && scrapes == "0" {
			err = errors.New("not scraped yet")
		}
		return err
	})
	get(t, "http://"+upstream+"/release", "")
	answered.Wait()
	close(answers)
	for err := range answers {
		if err != nil {
			t.Error(err)
		}
	}
	if scrapes := get(t, "http://"+upstream+"/scrapes", ""); scrapes != "1" {
		t.Errorf("%d overlapping requests caused %s scrapes of the upstream, want 1", callers, scrapes)
	}
}
