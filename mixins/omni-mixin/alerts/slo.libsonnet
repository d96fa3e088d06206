// Burn rates of the error budgets over several windows, after the workbook of Google's site reliability engineers
// (sre.google/workbook/alerting-on-slos): a long window for certainty, a short one so that the alert ends.
local alert = import '../lib/alert.libsonnet';
local promql = import '../lib/promql.libsonnet';
local slo = import '../lib/slo.libsonnet';

function(c)
  local q = promql(c);
  local a = alert(c);
  local s = slo(c);
  local on = q.on(c.sloLabels);
  local by = q.by(c.sloLabels);

  local burn(o, w) =
    local limit = w.factor * o.budget;
    assert limit < 1 : 'slo %s: a target of %g cannot burn %g times as fast as allowed; raise the target or lower the factor' % [o.key, o.target, w.factor];
    a(
      o.alert,
      |||
        %(long)s > %(limit)s
          and %(on)s
        %(short)s > %(limit)s
          and %(on)s
        sum %(by)s (increase(%(count)s[%(w)s])) > %(floor)s
      ||| % {
        long: q.metric(o.errors(w.long)),
        short: q.metric(o.errors(w.short)),
        limit: q.number(limit),
        on: on,
        by: by,
        count: o.count,
        w: w.long,
        floor: q.number(c.sloMinimumObservations),
      },
      w['for'],
      w.severity,
      '%s is spending its error budget too fast.' % o.title,
      q.place + '{{ $value | humanizePercentage }} of {{ $labels.model_name }} over the last %s is past %s, where %s may be. ' %
                [w.long, o.limit, q.number(100 * o.budget) + '%'] +
      'The SLO dashboard shows since when; the runbook what to look at.',
      { slo: o.key, long: w.long, short: w.short },
    );

  [
    { name: 'omni-slo-%s' % std.strReplace(o.key, '_', '-'), rules: [burn(o, w) for w in c.burnWindows] }
    for o in s.objectives
  ] +
  [{
    name: 'omni-slo',
    rules: [
      a(
        'OmniSloBucketMissing',
        'count %(by)s (count_over_time(%(count)s[5m])) unless %(on)s count %(by)s (count_over_time(%(good)s[5m]))' % { by: by, on: on, count: o.count, good: o.good },
        '30m',
        c.warningSeverity,
        'An objective has a threshold that is no bucket bound.',
        q.place + 'no bucket of %s has the bound %s, so the objective cannot be computed and its alerts cannot fire. ' % [o.metric, o.threshold] +
        'Set the threshold in the mixin to a bound that the histogram has.',
        { slo: o.key },
      )
      for o in s.objectives
    ],
  }]
