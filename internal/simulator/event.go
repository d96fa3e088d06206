package simulator

// EventType is the "type" of an Event, as POST /api/v1/events takes it.
type EventType string

// The event types, in the order in which a request meets them.
const (
	RequestStarted      EventType = "request_started"
	RequestScheduled    EventType = "request_scheduled"
	RequestFinished     EventType = "request_finished"
	RequestFailed       EventType = "request_failed"
	AudioFirstPacket    EventType = "audio_first_packet"
	AudioFinished       EventType = "audio_finished"
	AudioStreamFinished EventType = "audio_stream_finished"
	TransferTx          EventType = "transfer_tx"
	TransferRx          EventType = "transfer_rx"
)

// Event is one thing that happened to a request or on an edge between stages. Marshalled to JSON it is one line of a
// body for POST /api/v1/events. Fields that an event type does not have are zero and left out.
type Event struct {
	Type      EventType `json:"type"`
	Pipeline  string    `json:"pipeline,omitempty"`
	RequestID string    `json:"request_id,omitempty"`
	ModelName string    `json:"model_name,omitempty"`

	FinishedReason string  `json:"finished_reason,omitempty"` // stop or length
	E2ESeconds     float64 `json:"e2e_s,omitempty"`

	Stage               string    `json:"stage,omitempty"`
	Replica             string    `json:"replica,omitempty"`
	TTFPSeconds         float64   `json:"ttfp_s,omitempty"`
	AudioFrames         *int64    `json:"audio_frames,omitempty"` // a pointer because 0, a silent loss, is a value
	SampleRate          int       `json:"sample_rate,omitempty"`  // in Hz
	StageGenTimeSeconds float64   `json:"stage_gen_time_s,omitempty"`
	Channels            int       `json:"channels,omitempty"`
	BytesPerSample      int       `json:"bytes_per_sample,omitempty"`
	ArrivalsSeconds     []float64 `json:"arrivals_s,omitempty"`  // of each chunk, since the request's arrival
	ChunkBytes          []int     `json:"chunk_bytes,omitempty"` // of each chunk, as long as ArrivalsSeconds

	FromStage   string  `json:"from_stage,omitempty"`
	FromReplica string  `json:"from_replica,omitempty"`
	ToStage     string  `json:"to_stage,omitempty"`
	ToReplica   string  `json:"to_replica,omitempty"`
	SizeBytes   int     `json:"size_bytes,omitempty"`
	TxMillis    float64 `json:"tx_ms,omitempty"`
	RxMillis    float64 `json:"rx_ms,omitempty"`
	// InFlightMillis is the time between the end of sending and the start of receiving.
	InFlightMillis float64 `json:"in_flight_ms,omitempty"`
}

// emit keeps an event for Options.Events; without a hook nothing is kept.
func (p *Pipeline) emit(e Event) {
	if p.options.Events == nil {
		return
	}
	e.Pipeline = p.options.Pipeline
	p.events = append(p.events, e)
}
