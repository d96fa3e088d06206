// The objectives of _config.slos, with what rules, alerts and the dashboard share.
local promql = import 'promql.libsonnet';

function(c)
  local q = promql(c);
  local windows = std.set(std.flattenArrays([[w.long, w.short] for w in c.burnWindows]));
  {
    windows: windows,
    objectives: [
      local slo = c.slos[key];
      slo {
        key: key,
        // Of what burns the budget, the share that an objective allows.
        budget: 1 - slo.target,
        le: q.le(slo.threshold),
        count: q.metric(slo.metric + '_count', slo.matchers),
        good: q.metric(slo.metric + '_bucket', std.join(', ', std.filter(function(m) m != '', [q.le(slo.threshold), slo.matchers]))),
        errors(window): 'omni_slo:%s_errors:ratio_rate%s' % [key, window],
        // For people: "1 s", or the bare number of a ratio.
        limit: std.rstripChars('%s %s' % [slo.threshold, slo.unit], ' '),
      }
      for key in std.sort(std.objectFields(c.slos), function(key) if c.slos[key] == null then 0 else c.slos[key].order)
      if c.slos[key] != null
    ],
  }
