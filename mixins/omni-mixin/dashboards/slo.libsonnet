// How much of each error budget is left, and how fast it goes.
local g = import '../lib/grafana.libsonnet';
local panels = import '../lib/panels.libsonnet';
local slo = import '../lib/slo.libsonnet';

function(c)
  local p = panels(c);
  local v = p.variables;
  local s = slo(c);
  local by = 'pipeline, model_name';
  local legend = '{{pipeline}} {{model_name}}';
  // The shares of observations within and past the threshold, over the dashboard's whole time range.
  local good(o) = 'sum by (%s) (increase(%s[$__range]))' % [by, p.model(o.metric + '_bucket', std.join(', ', std.filter(function(m) m != '', [o.le, o.matchers])))];
  local all(o) = '(sum by (%s) (increase(%s[$__range])) > 0)' % [by, p.model(o.metric + '_count', o.matchers)];

  g.dashboard(c, 'SLO', 'omni-slo', 'Objectives of latency and audio, their error budgets and burn rates.', [v.job, v.pipeline, v.model], [
    g.row('', [
      g.text('', 'Burn rates come from the recording rules of omni-mixin (prometheus_rules.yaml): without them those panels are empty. A burn rate of 1 spends the budget in exactly 30 days.').size(24, 2),
    ]),
  ] + [
    g.row('%s: %s of observations within %s' % [o.title, '%g%%' % (100 * o.target), o.limit], [
      g.stat('Within the threshold', 'Share over the time range of the dashboard. %s' % o.metric, 'percentunit', '%s / %s' % [good(o), all(o)])
      .decimals(2).thresholds([[null, 'red'], [o.target, 'green']]).needsTraffic().size(4, 7),
      g.stat('Budget left', 'Share of the error budget that the observations of the time range leave; below zero it is overdrawn. %s' % o.metric, 'percentunit', '1 - (1 - %s / %s) / %s' % [good(o), all(o), '%.10g' % o.budget])
      .decimals(1).thresholds([[null, 'red'], [0, 'orange'], [0.25, 'green']]).needsTraffic().size(4, 7),
      g.timeseries('Burn rate', 'How many times as fast as allowed the budget is spent, over windows of different length. Alerts compare a long and a short one. %s' % o.errors('*'), 'none', [
        g.target('max by (%s) (%s) / %s' % [by, p.model(o.errors(w)), '%.10g' % o.budget], legend + ' ' + w)
        for w in ['5m', '1h', '6h', '3d']
        if std.member(s.windows, w)
      ]).needsTraffic().size(16, 7),
    ])
    for o in s.objectives
  ])
