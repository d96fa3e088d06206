package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/omni-exporter/omni_exporter/internal/simulator"
)

// eventsPath is where the exporter takes events.
const eventsPath = "/api/v1/events"

const (
	// maxBody is the size in bytes from which events go into another request, well
	// below what the exporter takes at a time.
	maxBody = 256 << 10
	// postTimeout bounds one request.
	postTimeout = 10 * time.Second
	// maxAnswer is how much of a refusal is logged, in bytes.
	maxAnswer = 512
)

// eventPoster posts events as an orchestrator does.
type eventPoster struct {
	ctx    context.Context
	url    string
	client *http.Client
	logger *slog.Logger
}

func newEventPoster(ctx context.Context, url string, logger *slog.Logger) *eventPoster {
	return &eventPoster{ctx: ctx, url: url, logger: logger, client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 1}, Timeout: postTimeout,
	}}
}

func (p *eventPoster) close() { p.client.CloseIdleConnections() }

// post sends events as lines of JSON and returns when the exporter has them.
func (p *eventPoster) post(events []simulator.Event) {
	var body bytes.Buffer
	lines := json.NewEncoder(&body)
	for i := range events {
		if err := lines.Encode(&events[i]); err != nil {
			p.logger.Warn("event not encoded", "type", string(events[i].Type), "err", err)
		}
		if body.Len() > maxBody || i == len(events)-1 {
			if err := p.send(&body); err != nil && p.ctx.Err() == nil {
				p.logger.Warn("events not accepted", "err", err)
			}
			body.Reset()
		}
	}
}

func (p *eventPoster) send(body *bytes.Buffer) error {
	request, err := http.NewRequestWithContext(p.ctx, http.MethodPost, p.url, bytes.NewReader(body.Bytes()))
	if err != nil {
		return fmt.Errorf("post events: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := p.client.Do(request)
	if err != nil {
		return fmt.Errorf("post events: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("post events: %w", err)
	}
	if response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("post events: %s: %q", response.Status, answer)
	}
	return nil
}
