{
  local c = $._config,
  local when(on, dashboards) = if on then dashboards else {},

  grafanaDashboards+::
    { 'omni-overview.json': (import 'overview.libsonnet')(c) } +
    when(c.enablePipeline, { 'omni-stages.json': (import 'stages.libsonnet')(c) }) +
    when(c.enableAudio, { 'omni-audio.json': (import 'audio.libsonnet')(c) }) +
    when(c.enableTransfer, { 'omni-transfer.json': (import 'transfer.libsonnet')(c) }) +
    when(c.enableForwardPass, { 'omni-forward-passes.json': (import 'forward_passes.libsonnet')(c) }) +
    when(c.enableSlo, { 'omni-slo.json': (import 'slo.libsonnet')(c) }) +
    when(c.enableExporter, { 'omni-exporter.json': (import 'exporter.libsonnet')(c) }),
}
