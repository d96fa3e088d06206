{
  local c = $._config,
  local group(on, name, rules) = if on then [{ name: name, rules: rules }] else [],

  prometheusAlerts+:: {
    groups+:
      group(c.enableExporter, 'omni-exporter', (import 'exporter.libsonnet')(c)) +
      group(c.enablePipeline, 'omni-pipeline', (import 'pipeline.libsonnet')(c)) +
      group(c.enableAudio, 'omni-audio', (import 'audio.libsonnet')(c)) +
      group(c.enableTransfer, 'omni-transfer', (import 'transfer.libsonnet')(c)) +
      group(c.enableForwardPass, 'omni-forward-pass', (import 'forward_pass.libsonnet')(c)) +
      (if c.enableSlo then (import 'slo.libsonnet')(c) else []),
  },
}
