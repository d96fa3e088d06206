// What a listener notices: when audio begins, whether it keeps up, and whether it came at all.
local g = import '../lib/grafana.libsonnet';
local panels = import '../lib/panels.libsonnet';

function(c)
  local p = panels(c);
  local v = p.variables;
  local place = 'pipeline, stage, replica';
  local legend = '{{pipeline}} {{stage}}/{{replica}}';
  local rate(name, matchers='') = p.rate(p.omniReplica(name, matchers));
  local continuous = rate('audio_continuity_ok_total', 'threshold_ms="%s"' % c.discontinuityThresholdMs);
  local streams = rate('audio_underrun_s_count');
  local skipped = rate('audio_skipped_requests_total');
  local measured = rate('audio_duration_s_count');
  local realTime = rate('audio_rtf_bucket', 'le=~"1|1\\\\.0"');
  local name(family) = c.omniPrefix + family;

  g.dashboard(c, 'Audio', 'omni-audio', 'When audio begins, whether it keeps up with playing, and whether it came at all.', [v.job, v.pipeline, v.model, v.stage, v.replica], [
    g.row('', [
      g.stat('First packet, p95', 'From arrival to the first audio. ' + name('audio_ttfp_s'), 's', p.quantile(0.95, '', p.omniReplica('audio_ttfp_s_bucket'))).needsTraffic(),
      g.stat('Real-time factor, p95', 'Generation time by audio duration. ' + name('audio_rtf'), 'none', p.quantile(0.95, '', p.omniReplica('audio_rtf_bucket'))).decimals(2)
      .thresholds([[null, 'green'], [1, 'red']]).needsTraffic(),
      g.stat('Faster than real time', 'Share of answers with a real-time factor of at most 1. ' + name('audio_rtf'), 'percentunit', 'sum(%s) / (sum(%s) > 0)' % [realTime, rate('audio_rtf_count')])
      .thresholds([[null, 'red'], [0.99, 'green']]).needsTraffic(),
      g.stat('Continuous streams', 'Share of measured streams without a gap past %s ms. %s by %s' % [c.discontinuityThresholdMs, name('audio_continuity_ok_total'), name('audio_underrun_s_count')], 'percentunit', 'sum(%s) / (sum(%s) > 0)' % [continuous, streams])
      .thresholds([[null, 'red'], [1 - c.discontinuityRatio, 'green']]).needsTraffic(),
      g.stat('Silent answers',
             'Share of finished answers without audio data. ' + name('audio_skipped_requests_total'),
             'percentunit',
             '(sum(%(s)s) or vector(0)) / ((sum(%(s)s) or vector(0)) + sum(%(m)s) > 0)' % { s: skipped, m: measured })
      .thresholds([[null, 'green'], [c.silentLossRatio, 'red']]).needsTraffic(),
      g.stat('Audio produced', 'Seconds of audio per second. ' + name('audio_duration_s'), 'suffix: s/s', 'sum(%s)' % rate('audio_duration_s_sum')).decimals(1),
    ]),
    g.row('First packet', [
      p.quantiles('Time to first audio packet', 'Streaming requests, from arrival. ' + name('audio_ttfp_s'), 's', p.omniReplica('audio_ttfp_s_bucket')),
      p.heatmap('Time to first audio packet', 'Streams per second by the time their first packet took. ' + name('audio_ttfp_s'), 's', p.omniReplica('audio_ttfp_s_bucket')),
    ]),
    g.row('Real time', [
      p.quantiles('Real-time factor', 'Above 1, audio is made more slowly than it plays. ' + name('audio_rtf'), 'none', p.omniReplica('audio_rtf_bucket')),
      g.timeseries('Real-time factor by replica, p95', name('audio_rtf'), 'none', [g.target(p.quantile(0.95, place, p.omniReplica('audio_rtf_bucket')), legend)]).needsTraffic(),
    ]),
    g.row('Gaps', [
      g.timeseries('Continuous streams', 'Share of measured streams without an audible gap, by the gap that counts as audible. Streams that were aborted or not streamed are not measured. %s by %s' % [name('audio_continuity_ok_total'), name('audio_underrun_s_count')], 'percentunit', [
        g.target('sum by (%(p)s, threshold_ms) (%(ok)s) / on (%(p)s) group_left () (sum by (%(p)s) (%(all)s) > 0)' % { p: place, ok: rate('audio_continuity_ok_total'), all: streams }, legend + ' at {{threshold_ms}} ms'),
      ]).range(0, 1).needsTraffic(),
      p.heatmap('Longest underrun of a stream', 'Streams per second by how long the listener waited at the most. ' + name('audio_underrun_s'), 's', p.omniReplica('audio_underrun_s_bucket')),
    ]),
    g.row('Amount', [
      g.timeseries('Answers without audio', 'Per second, by reason. ' + name('audio_skipped_requests_total'), 'ops', [
        g.target('sum by (%s, reason) (%s)' % [place, skipped], legend + ' {{reason}}'),
      ]).needsTraffic(),
      g.timeseries('Audio produced', 'Seconds of audio per second. ' + name('audio_duration_s'), 'suffix: s/s', [g.target('sum by (%s) (%s)' % [place, rate('audio_duration_s_sum')], legend)]).stacked(),
      g.timeseries('Audio frames', 'Per second. ' + name('audio_frames_total'), 'short', [g.target('sum by (%s) (%s)' % [place, rate('audio_frames_total')], legend)]).stacked(),
      p.quantiles('Duration of answers', 'Seconds of audio in one answer. ' + name('audio_duration_s'), 's', p.omniReplica('audio_duration_s_bucket')),
    ]),
  ])
