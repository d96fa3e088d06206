// Classic Grafana dashboards from a few parts. Panels flow from left to right in rows of 24 columns and get their ids from
// their order, so that a diff of the generated JSON shows what was changed.
local datasource = { type: 'prometheus', uid: '${datasource}' };

local panel(type, title, description, unit, targets) = {
  type: type,
  title: title,
  description: description,
  datasource: datasource,
  targets: [
    targets[i] { refId: std.char(std.codepoint('A') + i) }
    for i in std.range(0, std.length(targets) - 1)
  ],
  gridPos: { w: 12, h: 8 },
  fieldConfig: { defaults: { unit: unit }, overrides: [] },
  options: {},

  // Width and height, in columns and rows of the grid.
  size(w, h):: self { gridPos: { w: w, h: h } },
  // What the panel says in place of a value when requests are what makes one, and there were none.
  needsTraffic():: self { fieldConfig+: { defaults+: { noValue: 'no traffic' } } },
  // The same of a panel in a repeated row, for what some of the repeated do not have.
  notEverywhere():: self { fieldConfig+: { defaults+: { noValue: 'not measured here' } } },
  // Bounds of the axis, or of a gauge.
  range(min, max=null):: self { fieldConfig+: { defaults+: { min: min, [if max != null then 'max']: max } } },
  decimals(n):: self { fieldConfig+: { defaults+: { decimals: n } } },
  // Colours from `steps`, [[null, 'green'], [0.9, 'red']].
  thresholds(steps):: self {
    fieldConfig+: { defaults+: { thresholds: { mode: 'absolute', steps: [{ value: s[0], color: s[1] } for s in steps] } } },
  },
  overrides(list):: self { fieldConfig+: { overrides+: list } },
};

{
  target(expr, legend): {
    datasource: datasource,
    expr: expr,
    legendFormat: legend,
    range: true,
    instant: false,
    editorMode: 'code',
    format: 'time_series',
  },

  // A query of the values now, or over the dashboard's whole time range when it uses $__range.
  instant(expr, legend=''): self.target(expr, legend) { range: false, instant: true },

  timeseries(title, description, unit, targets): panel('timeseries', title, description, unit, targets) {
    fieldConfig+: {
      defaults+: {
        min: 0,
        color: { mode: 'palette-classic' },
        custom: {
          drawStyle: 'line',
          lineWidth: 1,
          fillOpacity: 10,
          showPoints: 'never',
          spanNulls: false,
          stacking: { mode: 'none', group: 'A' },
        },
      },
    },
    options: {
      legend: { displayMode: 'list', placement: 'bottom', showLegend: true, calcs: [] },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
    stacked():: self { fieldConfig+: { defaults+: { custom+: { fillOpacity: 40, stacking: { mode: 'normal', group: 'A' } } } } },
  },

  stat(title, description, unit, expr): panel('stat', title, description, unit, [$.instant(expr)]) {
    gridPos: { w: 4, h: 4 },
    fieldConfig+: { defaults+: { color: { mode: 'thresholds' }, thresholds: { mode: 'absolute', steps: [{ value: null, color: 'blue' }] } } },
    options: {
      colorMode: 'value',
      graphMode: 'none',
      justifyMode: 'auto',
      textMode: 'value',
      wideLayout: true,
      showPercentChange: false,
      percentChangeColorMode: 'standard',
      orientation: 'auto',
      reduceOptions: { values: false, calcs: ['lastNotNull'] },
    },
  },

  heatmap(title, description, unit, expr): panel('heatmap', title, description, unit, [$.target(expr, '{{le}}') { format: 'heatmap' }]) {
    fieldConfig: { defaults: { custom: { scaleDistribution: { type: 'linear' } } }, overrides: [] },
    options: {
      calculate: false,
      cellGap: 1,
      showValue: 'never',
      exemplars: { color: 'rgba(255,0,255,0.7)' },
      color: { mode: 'scheme', scheme: 'Blues', fill: 'dark-blue', scale: 'exponential', exponent: 0.5, steps: 64, reverse: false },
      filterValues: { le: 1e-9 },
      legend: { show: true },
      rowsFrame: { layout: 'auto' },
      tooltip: { mode: 'single', yHistogram: true, showColorScale: false },
      yAxis: { unit: unit, axisPlacement: 'left', reverse: false },
    },
  },

  // One row for each combination of `keys` (labels), one column for each of `columns`: [title, unit, expr]. `hidden` are
  // labels that the row keeps for its links and does not show.
  table(title, description, keys, columns, links={}, hidden=[]): panel('table', title, description, 'none', [
    $.instant(c[2]) { format: 'table' }
    for c in columns
  ]) {
    gridPos: { w: 24, h: 8 },
    fieldConfig+: {
      defaults+: { custom: { align: 'auto', cellOptions: { type: 'auto' }, inspect: false } },
      overrides: [
        {
          matcher: { id: 'byName', options: columns[i][0] },
          properties: [{ id: 'unit', value: columns[i][1] }, { id: 'decimals', value: 2 }],
        }
        for i in std.range(0, std.length(columns) - 1)
      ] + [
        {
          matcher: { id: 'byName', options: label },
          properties: [{ id: 'links', value: [links[label]] }],
        }
        for label in std.objectFields(links)
      ],
    },
    options: { frameIndex: 0, showHeader: true, cellHeight: 'sm', footer: { show: false, reducer: ['sum'], countRows: false, fields: '' } },
    transformations: [
      { id: 'merge', options: {} },
      {
        id: 'organize',
        options: {
          excludeByName: { Time: true } + { [label]: true for label in hidden },
          indexByName:
            { [keys[i]]: i for i in std.range(0, std.length(keys) - 1) } +
            { ['Value #' + std.char(std.codepoint('A') + i)]: std.length(keys) + i for i in std.range(0, std.length(columns) - 1) },
          renameByName: { ['Value #' + std.char(std.codepoint('A') + i)]: columns[i][0] for i in std.range(0, std.length(columns) - 1) },
        },
      },
    ],
  },

  text(title, markdown): {
    type: 'text',
    title: title,
    description: '',
    gridPos: { w: 24, h: 3 },
    options: { mode: 'markdown', content: markdown },
    size(w, h):: self { gridPos: { w: w, h: h } },
  },

  row(title, panels, repeat=null): { title: title, panels: panels, repeat: repeat },

  // A variable that lists the values of a label. The ones before it in a dashboard's list narrow it.
  variable(name, label, query, allValue, multi=true): {
    name: name,
    label: label,
    type: 'query',
    datasource: datasource,
    query: { query: query, refId: name },
    definition: query,
    refresh: 2,
    sort: 3,
    multi: multi,
    includeAll: true,
    allValue: allValue,
    current: { text: 'All', value: '$__all' },
    options: [],
    hide: 0,
    regex: '',
    skipUrlSync: false,
  },

  link(title, url): { title: title, url: url, targetBlank: false },

  dashboard(config, title, uid, description, variables, rows):
    // The row header, then its panels from left to right; each step yields the panels so far and where the next one goes.
    local header(r, at) = if r.title == '' then [] else [{
      type: 'row',
      title: r.title,
      id: std.length(at.panels) + 1,
      collapsed: false,
      panels: [],
      gridPos: { x: 0, y: at.y, w: 24, h: 1 },
      [if r.repeat != null then 'repeat']: r.repeat,
    }];
    local place(at, p) =
      local wraps = at.x + p.gridPos.w > 24;
      local x = if wraps then 0 else at.x;
      local y = if wraps then at.y + at.h else at.y;
      {
        panels: at.panels + [p { id: std.length(at.panels) + 1, gridPos+: { x: x, y: y } }],
        x: x + p.gridPos.w,
        y: y,
        h: if wraps then p.gridPos.h else std.max(at.h, p.gridPos.h),
      };
    local addRow(at, r) =
      local head = header(r, at);
      local end = std.foldl(place, r.panels, { panels: at.panels + head, x: 0, y: at.y + std.length(head), h: 0 });
      { panels: end.panels, y: end.y + end.h };
    local placed = std.foldl(addRow, rows, { panels: [], y: 0 });
    {
      title: config.dashboardNamePrefix + title,
      uid: uid,
      description: description,
      tags: config.dashboardTags,
      editable: config.dashboardEditable,
      graphTooltip: 1,
      schemaVersion: 39,
      version: 1,
      refresh: config.dashboardRefresh,
      time: { from: 'now-1h', to: 'now' },
      timezone: '',
      fiscalYearStartMonth: 0,
      weekStart: '',
      annotations: { list: [] },
      links: [{
        type: 'dashboards',
        title: 'Omni dashboards',
        icon: 'external link',
        tooltip: 'The other dashboards, with the same variables and time',
        url: '',
        tags: config.dashboardTags,
        asDropdown: true,
        includeVars: true,
        keepTime: true,
        targetBlank: false,
      }],
      templating: {
        list: [{
          name: 'datasource',
          label: 'Data source',
          type: 'datasource',
          query: 'prometheus',
          regex: config.datasourceRegex,
          refresh: 1,
          multi: false,
          includeAll: false,
          current: { text: '', value: '' },
          options: [],
          hide: 0,
          skipUrlSync: false,
        }] + variables,
      },
      panels: placed.panels,
    },
}
