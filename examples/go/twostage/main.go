// Command twostage is a pipeline of two stages that tells omni_exporter what it
// does: twostage http://127.0.0.1:10380. The stages only sleep; what matters is
// where the events are sent.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/omni-exporter/omni_exporter/examples/go/omnievents"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: twostage URL")
		os.Exit(2)
	}
	client := omnievents.New(os.Args[1], 10_000)
	var requests sync.WaitGroup
	for i := range 20 {
		requests.Go(func() { handle(client, fmt.Sprintf("%d-%d", time.Now().UnixNano(), i)) })
	}
	requests.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := client.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "closing:", err)
	}
	fmt.Printf("sent=%d rejected=%d dropped=%d\n", client.Sent(), client.Rejected(), client.Dropped())
}

// handle takes a request through a thinker and a talker.
func handle(client *omnievents.Client, id string) {
	const model = "two-stage"
	arrived := time.Now()
	send := func(eventType string, fields omnievents.Event) {
		fields["type"], fields["model_name"] = eventType, model
		client.Send(fields)
	}
	send("request_started", omnievents.Event{"request_id": id})
	send("request_scheduled", omnievents.Event{"request_id": id})
	time.Sleep(20 * time.Millisecond) // the thinker thinks

	replica := strconv.Itoa(len(id) % 2)
	begin := time.Now()
	payload := []byte("what the thinker hands to the talker")
	send("transfer_tx", omnievents.Event{
		"from_stage": "0", "from_replica": "0", "to_stage": "1", "to_replica": replica,
		"size_bytes": len(payload), "tx_ms": milliseconds(time.Since(begin)),
	})

	begin = time.Now()
	time.Sleep(10 * time.Millisecond) // the talker speaks its first chunk
	send("audio_first_packet", omnievents.Event{
		"request_id": id, "stage": "1", "replica": replica, "ttfp_s": time.Since(arrived).Seconds(),
	})
	send("audio_finished", omnievents.Event{
		"request_id": id, "stage": "1", "replica": replica,
		"audio_frames": 2400, "sample_rate": 24000, "stage_gen_time_s": time.Since(begin).Seconds(),
	})
	send("request_finished", omnievents.Event{"request_id": id, "e2e_s": time.Since(arrived).Seconds()})
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
