// The edges between stages.
local g = import '../lib/grafana.libsonnet';
local panels = import '../lib/panels.libsonnet';

function(c)
  local p = panels(c);
  local v = p.variables;
  local edge = 'pipeline, from_stage, from_replica, to_stage, to_replica';
  local legend = '{{pipeline}} {{from_stage}}/{{from_replica}} to {{to_stage}}/{{to_replica}}';
  local name(family) = c.omniPrefix + family;
  local rate(family) = 'sum by (%s) (%s)' % [edge, p.rate(p.omni(family))];
  local p95(family) = p.quantile(0.95, edge, p.omni(family + '_bucket'));
  local edges(title, description, unit, expr) = g.timeseries(title, description, unit, [g.target(expr, legend)]);

  g.dashboard(c, 'Transfer', 'omni-transfer', 'What stages send each other, and how long it takes.', [v.job, v.pipeline, v.model], [
    g.row('', [
      g.table(
        'Edges',
        'One row for each pair of replicas that send to each other. The stage leads to its replicas. %s, %s, %s, %s' % [name('transfer_size_bytes'), name('transfer_tx_s'), name('transfer_rx_s'), name('transfer_in_flight_s')],
        ['pipeline', 'from_stage', 'from_replica', 'to_stage', 'to_replica'],
        [
          ['Chunks per second', 'short', rate('transfer_tx_s_count')],
          ['Throughput', 'Bps', rate('transfer_size_bytes_sum')],
          ['Mean size', 'bytes', p.mean(edge, 'transfer_size_bytes', p.omni)],
          ['Send, p95', 's', p95('transfer_tx_s')],
          ['Receive, p95', 's', p95('transfer_rx_s')],
          ['In flight, p95', 's', p95('transfer_in_flight_s')],
        ],
        {
          from_stage: p.onward('Replicas of this stage', 'omni-stages', [['stage', '${__data.fields.from_stage}']]),
          to_stage: p.onward('Replicas of this stage', 'omni-stages', [['stage', '${__data.fields.to_stage}']]),
        },
      ),
    ]),
    g.row('Time', [
      p.heatmap('Time in flight', 'Chunks per second by the time from sent to fetched. ' + name('transfer_in_flight_s'), 's', p.omni('transfer_in_flight_s_bucket')),
      edges('Time in flight, p99', 'By edge. ' + name('transfer_in_flight_s'), 's', p.quantile(0.99, edge, p.omni('transfer_in_flight_s_bucket'))).needsTraffic(),
      edges('Send time, p95', 'To serialize and submit. ' + name('transfer_tx_s'), 's', p95('transfer_tx_s')).needsTraffic(),
      edges('Receive time, p95', 'To receive and decode. ' + name('transfer_rx_s'), 's', p95('transfer_rx_s')).needsTraffic(),
    ]),
    g.row('Amount', [
      g.timeseries('Sent and received', 'Chunks per second between two stages. What is sent and not received is stuck. %s, %s' % [name('transfer_tx_s'), name('transfer_rx_s')], 'ops', [
        g.target('sum by (pipeline, from_stage, to_stage) (%s)' % p.rate(p.omni('transfer_tx_s_count')), '{{pipeline}} {{from_stage}} to {{to_stage}} sent'),
        g.target('sum by (pipeline, from_stage, to_stage) (%s)' % p.rate(p.omni('transfer_rx_s_count')), '{{pipeline}} {{from_stage}} to {{to_stage}} received'),
      ]),
      edges('Throughput', 'Bytes per second on each edge. ' + name('transfer_size_bytes'), 'Bps', rate('transfer_size_bytes_sum')),
      edges('Speed while sending',
            'Bytes by the time it took to send them. %s by %s' % [name('transfer_size_bytes'), name('transfer_tx_s')],
            'Bps',
            '%s / (%s > 0)' % [rate('transfer_size_bytes_sum'), rate('transfer_tx_s_sum')]).needsTraffic(),
      p.heatmap('Size of chunks', 'Chunks per second by size. ' + name('transfer_size_bytes'), 'bytes', p.omni('transfer_size_bytes_bucket')),
    ]),
  ])
