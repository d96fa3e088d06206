package collector

// DefaultContinuityThresholdMS is the worst underrun, in milliseconds, that
// vLLM-Omni's server still counts as continuous.
const DefaultContinuityThresholdMS = 100

// Playback is the outcome of a simulated playback of a stream.
type Playback struct {
	// Underrun is the largest deficit in seconds: how far the player was ahead
	// of the audio it had received. It is never negative.
	Underrun float64
	// Events is how many chunks arrived when the player had run dry.
	Events int
}

// Continuous tells whether the worst underrun stayed within thresholdSeconds,
// the threshold included.
func (p Playback) Continuous(thresholdSeconds float64) bool { return p.Underrun <= thresholdSeconds }

// SimulatePlayback plays a stream of chunks at the rate of bytesPerSecond
// (sample rate x bytes per sample x channels). arrivals are in seconds, bytes
// the size of each chunk.
//
// The player starts with the first chunk and buffers nothing beforehand. When
// chunk i arrives, i > 0, it wants to have played (arrival i - arrival 0) x
// bytesPerSecond, and has received the chunks before i. Its clock is not set
// back after a stall, so deficits add up (vLLM-Omni's audio continuity
// benchmark). Nothing to play, lists of different length and a rate that is not
// positive give a Playback without underrun.
func SimulatePlayback(arrivals, bytes []float64, bytesPerSecond float64) Playback {
	var p Playback
	if len(arrivals) == 0 || len(arrivals) != len(bytes) || bytesPerSecond <= 0 {
		return p
	}
	received := 0.0
	for i := 1; i < len(arrivals); i++ {
		received += bytes[i-1]
		deficit := (arrivals[i]-arrivals[0])*bytesPerSecond - received
		if deficit <= 0 {
			continue
		}
		p.Events++
		p.Underrun = max(p.Underrun, deficit/bytesPerSecond)
	}
	return p
}
