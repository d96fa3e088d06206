// What a listener notices.
local alert = import '../lib/alert.libsonnet';
local promql = import '../lib/promql.libsonnet';

function(c)
  local q = promql(c);
  local a = alert(c);
  local n = q.number;
  local replica = ['model_name', 'stage', 'replica'];
  local where = q.place + 'replica {{ $labels.replica }} of stage {{ $labels.stage }} ';
  [
    a(
      'OmniAudioSilentLoss',
      // Every finished answer is either measured or skipped, so the two make the whole.
      |||
        (sum %(byReason)s (increase(%(skipped)s[15m])) >= %(floor)s)
          / %(on)s group_left ()
        (
          sum %(by)s (increase(%(skipped)s[15m]))
            + %(on)s
          (sum %(by)s (increase(%(measured)s[15m])) or %(on)s 0 * sum %(by)s (increase(%(skipped)s[15m])))
        )
          > %(ratio)s
      ||| % {
        by: q.by(replica),
        byReason: q.by(replica + ['reason']),
        on: q.on(replica),
        skipped: q.omni('audio_skipped_requests_total'),
        measured: q.omni('audio_duration_s_count'),
        floor: n(c.silentLossMinimum),
        ratio: n(c.silentLossRatio),
      },
      '5m',
      c.criticalSeverity,
      'Answers that should be heard have no audio.',
      where + 'finished {{ $value | humanizePercentage }} of its requests without audio (reason {{ $labels.reason }}). Users hear nothing and get no error. ' +
      'If it is one replica, take it out of service; if all, look at what the stage before it sends.',
    ),
    a(
      'OmniAudioDiscontinuity',
      // Only streams that were measured count as heard: the whole is the count of underruns, not of requests. A replica
      // without one continuous stream has no series of those, which stands for none.
      |||
        1 -
        (
          sum %(by)s (increase(%(ok)s[15m]))
            or %(on)s
          0 * sum %(by)s (increase(%(streams)s[15m]))
        )
          / %(on)s
        (sum %(by)s (increase(%(streams)s[15m])) > %(floor)s)
          > %(ratio)s
      ||| % {
        by: q.by(replica),
        on: q.on(replica),
        ok: q.omni('audio_continuity_ok_total', 'threshold_ms="%s"' % c.discontinuityThresholdMs),
        streams: q.omni('audio_underrun_s_count'),
        floor: n(c.discontinuityMinimumStreams),
        ratio: n(c.discontinuityRatio),
      },
      '10m',
      c.warningSeverity,
      'Listeners hear gaps.',
      where + 'lets {{ $value | humanizePercentage }} of its audio streams run dry for more than %s ms. ' % c.discontinuityThresholdMs +
      'It produces more slowly than real time (real-time factor), or gets its input late (Transfer dashboard).',
    ),
  ]
