// The edges between stages.
local alert = import '../lib/alert.libsonnet';
local promql = import '../lib/promql.libsonnet';

function(c)
  local q = promql(c);
  local a = alert(c);
  local n = q.number;
  local edge = ['model_name', 'from_stage', 'from_replica', 'to_stage', 'to_replica'];
  local where = q.place + 'the edge {{ $labels.from_stage }}/{{ $labels.from_replica }} to {{ $labels.to_stage }}/{{ $labels.to_replica }} ';
  local tx = q.omni('transfer_tx_s_count');
  local rx = q.omni('transfer_rx_s_count');
  [
    a(
      'OmniTransferSlow',
      'histogram_quantile(0.99, sum %s (rate(%s[10m]))) > %s' % [
        q.by(['le'] + edge),
        q.omni('transfer_in_flight_s_bucket'),
        n(c.transferSlowSeconds),
      ],
      '10m',
      c.warningSeverity,
      'Chunks take long from one stage to the next.',
      where + '(stage/replica) keeps one chunk in a hundred in flight for {{ $value | humanizeDuration }} or longer. ' +
      'Look at the network or shared memory between the two, and whether the receiver is too busy to fetch.',
    ),
    a(
      'OmniTransferStalled',
      // Where nothing is ever received the receivers report nothing, which is no stall.
      |||
        sum %(by)s (rate(%(tx)s[5m])) > 0
          unless %(on)s
        sum %(by)s (rate(%(rx)s[5m])) > 0
          and %(onJob)s
        count %(byJob)s (count_over_time(%(rx)s[5m]))
      ||| % { by: q.by(edge), on: q.on(edge), byJob: q.by(), onJob: q.on(), tx: tx, rx: rx },
      '5m',
      c.criticalSeverity,
      'What one stage sends, the next does not receive.',
      where + '(stage/replica) sends {{ $value | printf "%.1f" }} chunks per second, and none arrives. The receiver hangs or is gone: ' +
      'see whether its engine steps.',
    ),
    a(
      'OmniTransferInFlightShare',
      |||
        sum %(by)s (rate(%(flight)s_sum%(sel)s[10m]))
          / %(on)s
        (
          sum %(by)s (rate(%(tx)s_sum%(sel)s[10m]))
            + %(on)s
          sum %(by)s (rate(%(rx)s_sum%(sel)s[10m]))
            + %(on)s
          sum %(by)s (rate(%(flight)s_sum%(sel)s[10m]))
        )
          > %(ratio)s
          and %(on)s
        sum %(by)s (rate(%(flight)s_sum%(sel)s[10m]))
          / %(on)s
        (sum %(by)s (rate(%(flight)s_count%(sel)s[10m])) > 0)
          > %(floor)s
      ||| % {
        by: q.by(edge),
        on: q.on(edge),
        sel: q.metric(''),
        tx: c.omniPrefix + 'transfer_tx_s',
        rx: c.omniPrefix + 'transfer_rx_s',
        flight: c.omniPrefix + 'transfer_in_flight_s',
        ratio: n(c.inFlightRatio),
        floor: n(c.inFlightMinimumSeconds),
      },
      '15m',
      c.infoSeverity,
      'Most of the time of transfers passes in flight.',
      where + '(stage/replica) spends {{ $value | humanizePercentage }} of its transfer time between sending and receiving. ' +
      'The receiver fetches late, or the connector queues.',
    ),
  ]
