// The share of observations past each objective's threshold, for each window that a burn-rate alert looks at. Without
// observations there is no sample, rather than NaN.
local promql = import '../lib/promql.libsonnet';
local slo = import '../lib/slo.libsonnet';

function(c)
  local q = promql(c);
  local s = slo(c);
  local by = q.by(c.sloLabels);
  [
    {
      name: 'omni-slo-%s-rules' % std.strReplace(o.key, '_', '-'),
      rules: [
        {
          record: o.errors(w),
          expr: |||
            1 -
            sum %(by)s (rate(%(good)s[%(w)s]))
              / %(on)s
            (sum %(by)s (rate(%(count)s[%(w)s])) > 0)
          ||| % { by: by, on: q.on(c.sloLabels), good: o.good, count: o.count, w: w },
        }
        for w in s.windows
      ],
    }
    for o in s.objectives
  ]
