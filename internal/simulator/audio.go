package simulator

import (
	"strconv"
	"time"
)

const (
	bytesPerSample = 2     // signed 16 bit, one channel
	hiccupDelay    = 1.5   // seconds by which a late chunk is late; more than the player has buffered by then
	streamingDelay = 0.002 // seconds from the engine to the client
)

// playChunk sends the client what audio has become ready.
func (p *Pipeline) playChunk(j *job) {
	r := j.request
	if r.done || r.silent || !r.streaming {
		return
	}
	bytes := r.frames(j.prompt) * bytesPerSample
	for _, b := range r.bytes {
		bytes -= b
	}
	if bytes <= 0 {
		return
	}
	arrival := (p.now - r.arrival).Seconds() + streamingDelay*p.jitter(0.5)
	if n := len(r.arrivals); n > 0 {
		if n == r.hiccup {
			arrival += hiccupDelay
		}
		arrival = max(arrival, r.arrivals[n-1]) // a stream keeps its order
	}
	r.arrivals = append(r.arrivals, micro(arrival))
	r.bytes = append(r.bytes, bytes)
	if len(r.arrivals) == 1 {
		e := p.audioEvent(AudioFirstPacket, j)
		e.TTFPSeconds = r.arrivals[0]
		p.emit(e)
	}
}

// finishAudio ends a request whose audio is complete, or came to nothing.
func (p *Pipeline) finishAudio(j *job) {
	r := j.request
	if r.done {
		return
	}
	frames := int64(r.frames(r.codec))
	if r.silent {
		frames = 0
	}
	finished := p.audioEvent(AudioFinished, j)
	finished.AudioFrames, finished.SampleRate = &frames, sampleRate
	finished.StageGenTimeSeconds = (p.now - j.arrival).Seconds()
	p.emit(finished)
	if len(r.arrivals) > 0 {
		stream := p.audioEvent(AudioStreamFinished, j)
		stream.SampleRate, stream.Channels, stream.BytesPerSample = sampleRate, 1, bytesPerSample
		stream.ArrivalsSeconds, stream.ChunkBytes = r.arrivals, r.bytes
		p.emit(stream)
	}
	p.finish(r)
}

// frames is the number of audio frames that so many codec tokens make.
func (r *request) frames(codecTokens int) int {
	return int(float64(codecTokens) / codecRate * sampleRate)
}

func (p *Pipeline) audioEvent(t EventType, j *job) Event {
	return Event{
		Type: t, RequestID: j.request.id, ModelName: p.options.Model,
		Stage: strconv.Itoa(j.engine.stage), Replica: strconv.Itoa(j.engine.replica),
	}
}

// micro rounds seconds to whole microseconds, which keeps the lines of events short.
func micro(s float64) float64 { return seconds(s).Round(time.Microsecond).Seconds() }
