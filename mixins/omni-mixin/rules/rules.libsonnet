{
  local c = $._config,
  prometheusRules+:: {
    groups+:
      (if c.enableSlo then (import 'slo.libsonnet')(c) else []),
  },
}
