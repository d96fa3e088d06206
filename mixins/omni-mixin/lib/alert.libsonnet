// One alert rule, with the fields in the order people read them in.
function(config) function(name, expr, for_, severity, summary, description, labels={}) {
  alert: name,
  expr: expr,
  'for': for_,
  labels: { severity: severity } + labels,
  annotations: {
    summary: summary,
    description: description,
    runbook_url: config.runbookURLPattern % std.asciiLower(name),
  },
}
