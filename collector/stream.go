package collector

// AudioStream is how the audio of a request reached its listener.
type AudioStream struct {
	// SampleRate in Hz, Channels and BytesPerSample of the bytes as sent; the
	// defaults of vLLM-Omni if 0 or less.
	SampleRate, Channels, BytesPerSample int
	// Arrivals are the seconds since the request arrived, one per chunk. A time
	// a little below 0 is clock skew and taken as 0.
	Arrivals []float64
	// ChunkBytes are the PCM bytes of each chunk, without container headers.
	ChunkBytes []float64
	// FinishedReason is empty, "stop" or "length" for a stream that finished
	// normally; any other says that it did not.
	FinishedReason string
}

// AudioStreamFinished plays a finished stream to a simulated listener, once per
// request and stage, and records its largest underrun and the thresholds it
// stayed within. A stream that did not finish normally (FinishedReason, or an
// aborted request) is ErrStreamUnfinished, one without bytes ErrEmptyStream:
// neither is a sample. Errors also: ErrDuplicate, ErrReplicaUnknown,
// ErrUnknownRequest, ErrSeriesLimit, *FieldError.
func (c *AudioCollector) AudioStreamFinished(ref RequestRef, at Place, stream AudioStream) error {
	if err := checkAudio(ref, at); err != nil {
		return err
	}
	arrivals, chunks, err := stream.heard()
	if err != nil {
		return err
	}
	bytesPerSecond, err := stream.bytesPerSecond()
	if err != nil {
		return err
	}
	switch stream.FinishedReason {
	case "", FinishedReasonStop, "length":
	default:
		return ErrStreamUnfinished
	}
	if len(chunks) == 0 {
		return ErrEmptyStream
	}
	if at.Replica == "" {
		return ErrReplicaUnknown
	}
	return c.oncePerStage(ref, at, func(r *request, guard stageGuard, key audioKey) (stageGuard, error) {
		if guard.streamed {
			return guard, ErrDuplicate
		}
		if r != nil && r.aborted {
			return guard, ErrStreamUnfinished
		}
		guard.streamed = true
		return guard, c.observePlayback(key, SimulatePlayback(arrivals, chunks, bytesPerSecond))
	})
}

// heard returns the chunks that carry audio, checked and clamped. The lists
// given are not changed.
func (s AudioStream) heard() (arrivals, chunks []float64, err error) {
	if len(s.Arrivals) != len(s.ChunkBytes) {
		return nil, nil, badField("chunk_bytes", "%d chunks but %d arrivals_s", len(s.ChunkBytes), len(s.Arrivals))
	}
	arrivals = make([]float64, 0, len(s.Arrivals))
	chunks = make([]float64, 0, len(s.Arrivals))
	for i, size := range s.ChunkBytes {
		at, err := clampSkew("arrivals_s", s.Arrivals[i])
		if err != nil {
			return nil, nil, err
		}
		if err := checkRange("chunk_bytes", size, 0, MaxTransferBytes); err != nil {
			return nil, nil, err
		}
		if size > 0 {
			arrivals, chunks = append(arrivals, at), append(chunks, size)
		}
	}
	return arrivals, chunks, nil
}

func (s AudioStream) bytesPerSecond() (float64, error) {
	rate := ResolveSampleRate(s.SampleRate)
	channels, width := s.Channels, s.BytesPerSample
	if channels <= 0 {
		channels = DefaultChannels
	}
	if width <= 0 {
		width = DefaultBytesPerSample
	}
	if err := checkRange("sample_rate", float64(rate), 1, MaxSampleRate); err != nil {
		return 0, err
	}
	if err := checkRange("channels", float64(channels), 1, MaxChannels); err != nil {
		return 0, err
	}
	if err := checkRange("bytes_per_sample", float64(width), 1, MaxBytesPerSample); err != nil {
		return 0, err
	}
	return float64(rate) * float64(channels) * float64(width), nil
}

func (c *AudioCollector) observePlayback(key audioKey, p Playback) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.find(key)
	need := missing(s.underrun)
	for _, t := range c.thresholds {
		need += missing(s.continuityOK[t.label])
	}
	if err := c.budget.take(need); err != nil {
		return err
	}
	c.series[key] = s
	if s.underrun == nil {
		s.underrun = c.histogram(c.families.underrun, key.labels())
	}
	s.underrun.Observe(p.Underrun)
	for _, t := range c.thresholds {
		// Made with the first measured stream even if that was bad: a ratio
		// of 0 can raise an alert, an absent one cannot.
		if s.continuityOK[t.label] == nil {
			s.continuityOK[t.label] = c.counter(c.families.continuityOK, key.labels("threshold_ms", t.label))
		}
		if p.Continuous(t.seconds) {
			s.continuityOK[t.label].Inc()
		}
	}
	return nil
}
