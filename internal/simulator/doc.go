// Package simulator models a multi-stage audio pipeline in the manner of vLLM-Omni (by default thinker x1, talker x2 and
// code2wav x2, five engines) and serves the pages, events and forward pass records that such a pipeline would produce.
//
// The model is a discrete-event simulation. Requests arrive in waves and bursts, are batched by engines that have seats,
// a token budget and KV-cache blocks, travel between stages in chunks and leave as text or as an audio stream. Every
// number on a page, in an event or in a forward pass record follows from that one model, so that they agree with each
// other: a histogram's count is the number of requests that the counters and the events know of.
//
// Nothing in here is a measurement of a real server; step costs and request sizes are round numbers chosen so that a
// pipeline without a fault stays inside usual objectives and each Fault leaves them.
package simulator
