"use strict";
// The page of `Record.explore`: controls → one setting per method → linked charts, drawn by Vega.

const content = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const POWERS = Array.from({length: 23}, (_, k) => Number(`1e${k}`));
const STEPS = {sfo: "stochastic gradients", step: "iterations"};
const SCALES = {log: "logarithmic", linear: "linear"};
const CURVES = content.curves.map(({key}) => key), SCORES = content.scores.map(({key}) => key);
const MEAN = 0, LOW = 1, HIGH = 2, SEEDS = 3; // rows of a packed array

// ---- Numbers

/** A function (curve, configuration, row) → numbers, from planes of bytes: see `packed` in explore.py. */
async function unpack({shape, data}) {
  const text = atob(data), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const [, configurations, rows, points] = shape, count = shape.reduce((a, b) => a * b);
  const at = (i) => {
    const m = planes[i] | planes[i + count] << 8 | planes[i + 2 * count] << 16 | planes[i + 3 * count] << 24;
    const e = planes[i + 4 * count] << 24 >> 24;
    if (m === -(2 ** 31)) return NaN;
    return Math.abs(e) > 22 ? Number(`${m}e${e}`) : e < 0 ? m / POWERS[-e] : m * POWERS[e];
  };
  return (curve, row, seed) => {
    const first = ((curve * configurations + row) * rows + seed) * points;
    return Array.from({length: points}, (_, k) => at(first + k));
  };
}

function text(value) {
  if (!Number.isFinite(value)) return "not finite";
  return Number.isInteger(value) && Math.abs(value) < 1e9 ? value.toLocaleString("en") :
    Math.abs(value) >= 1e5 || Math.abs(value) < 1e-4 ? value.toExponential() : String(value);
}

const symbol = (field) => {
  const name = field.split(".").at(-1);
  return content.symbols[name] ?? name;
};
const spelled = (at) => Object.entries(at).map(([field, value]) => `${symbol(field)} = ${text0(value)}`).join(", ");
const text0 = (value) => typeof value === "number" ? String(Number(value.toPrecision(6))) : value;

// ---- What is shown

const values = {}; // of every field that differs between configurations
for (const {at} of content.configurations)
  for (const [field, value] of Object.entries(at)) (values[field] ??= new Set()).add(value);
const fields = Object.keys(values).filter((field) => values[field].size > 1);
for (const field of fields) values[field] = [...values[field]].sort((a, b) => typeof a === "number" ? a - b : 0);
const isNumber = (field) => values[field].every((value) => typeof value === "number");
const numeric = fields.filter(isNumber), words = fields.filter((field) => !isNumber(field));
const seeds = [...new Set(content.groups.flatMap((group) => group.seeds))].sort((a, b) => a - b);
let state, initial, cursor = null, charts = [], built = Promise.resolve();

function defaults() {
  const start = {seed: "mean", x: "sfo", xscale: "log", yscale: "log", score: SCORES[0], hide: "", zoom: "", heat: "0"};
  [start.across, start.up] = [numeric.at(-1) ?? "", numeric.at(-2) ?? ""];
  for (const field of words) start[field] = values[field][0];
  const first = content.configurations.filter(({method, at}) =>
    method === 0 && words.every((field) => !(field in at) || at[field] === start[field]));
  const best = least(first, (each) => score(each, MEAN)) ?? content.configurations[0];
  for (const field of numeric) start[field] = best.at[field] ?? values[field][values[field].length >> 1];
  return start;
}

/** The view in the address: every choice that is not the one the page opens with. */
function read() {
  state = {...initial};
  for (const [key, value] of new URLSearchParams(location.hash.slice(1)))
    if (key in state) state[key] = fields.includes(key) && isNumber(key) ? nearest(values[key], Number(value)) : value;
}

function write() {
  const changed = Object.entries(state).filter(([key, value]) => value !== initial[key]);
  history.replaceState(null, "", changed.length ? `#${new URLSearchParams(changed)}` : location.pathname + location.search);
}

function least(items, measure) {
  let best, smallest = Infinity;
  for (const item of items) {
    const size = measure(item);
    if (size < smallest) [best, smallest] = [item, size];
  }
  return best;
}

const apart = (a, b) => a === b ? 0 : a > 0 && b > 0 ? Math.abs(Math.log(a / b)) : 1 + Math.abs(a - b);
const nearest = (list, value) => least(list, (each) => apart(each, value)) ?? list[0];
const hidden = () => new Set(state.hide ? state.hide.split(",").map(Number) : []);
const visible = () => content.methods.map((_, method) => method).filter((method) => !hidden().has(method));

/** The configuration of a method that is nearest to what the controls say. */
function chosen(method) {
  const own = content.configurations.filter((each) => each.method === method &&
    words.every((field) => !(field in each.at) || each.at[field] === state[field]));
  return least(own, ({at}) => numeric.reduce((sum, field) => sum + (field in at ? apart(at[field], state[field]) : 0), 0));
}

function rowOf(group) {
  const place = group.seeds.indexOf(Number(state.seed));
  return state.seed === "mean" ? MEAN : place < 0 ? null : SEEDS + place;
}

function score({group, row}, which) {
  return content.groups[group].scores(SCORES.indexOf(state?.score ?? SCORES[0]), row, which)[0];
}

/** What a chart draws of every visible method: rows {s, x, y, low, high}, in the order of the record. */
function series(key) {
  const drawn = [];
  for (const method of visible()) {
    const configuration = chosen(method), group = configuration && content.groups[configuration.group];
    const row = configuration ? rowOf(group) : null;
    if (row === null) continue;
    const curve = (name, which) => group.curves(CURVES.indexOf(name), configuration.row, which);
    const xs = state.x === "step" ? group.steps : curve("sfo", row), ys = curve(key, row);
    const low = row === MEAN ? curve(key, LOW) : ys, high = row === MEAN ? curve(key, HIGH) : ys;
    drawn.push({method, at: configuration.at, rows: xs.map((x, k) => ({x, y: ys[k], low: low[k], high: high[k]}))});
  }
  return drawn;
}

/** The score against one number, everything else as the controls say. */
function tuning(field) {
  const drawn = [];
  for (const method of visible()) {
    const now = chosen(method);
    if (!now || !(field in now.at)) continue;
    const rows = alike(now, [field]).map((each) => ({x: each.at[field], ...scored(each), at: each.at}));
    drawn.push({method, at: now.at, rows: rows.sort((a, b) => a.x - b.x)});
  }
  return drawn;
}

/** The configurations of the same method that differ in these fields alone. */
function alike(now, free) {
  return content.configurations.filter(({method, at}) =>
    method === now.method && fields.every((field) => free.includes(field) || at[field] === now.at[field]));
}

function scored(configuration) {
  const row = rowOf(content.groups[configuration.group]);
  if (row === null) return {y: NaN, low: NaN, high: NaN};
  const [low, high] = row === MEAN ? [LOW, HIGH] : [row, row];
  return {y: score(configuration, row), low: score(configuration, low), high: score(configuration, high)};
}

// ---- Charts

const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = (method) => {
  const own = content.methods[method].colour;
  return dark.matches && own === "#000000" ? "#FFFFFF" : own;
};
const axis = (scale, title) => ({scale, title, orient: scale === "x" ? "bottom" : "left", grid: true, tickCount: 5,
  labelOverlap: true, labelFlush: scale === "x", format: "~g", labelFontSize: 11, titleFontSize: 11, titleFontWeight: "normal"});

function lines(chart, log, width) {
  const [wide, high] = [{signal: "width"}, {signal: "height"}];
  const place = {x: {scale: "x", field: "x"}, stroke: {field: "colour"}};
  const seen = {signal: "isValid(datum.y)"};
  return {
    width, height: 240, padding: 2, autosize: {type: "fit", contains: "padding", resize: true}, description: chart.title,
    signals: ["xs", "ys", "xticks", "yticks"].map((name) => ({name, value: [1, 10]})),
    data: ["rows", "rules", "cursor"].map((name) => ({name})),
    scales: [
      {name: "x", type: log.x ? "log" : "linear", domain: {signal: "xs"}, range: "width", zero: false},
      {name: "y", type: log.y ? "log" : "linear", domain: {signal: "ys"}, range: "height", zero: false},
    ],
    axes: [{...axis("x", chart.across()), values: {signal: "xticks"}}, {...axis("y", null), values: {signal: "yticks"}}],
    marks: [{type: "group", clip: true, encode: {update: {width: wide, height: high}}, marks: [
      {type: "group", from: {facet: {name: "one", data: "rows", groupby: "s"}}, marks: [
        {type: "area", aria: false, from: {data: "one"}, encode: {update: {x: place.x, y: {scale: "y", field: "low"},
          y2: {scale: "y", field: "high"}, fill: {field: "colour"}, fillOpacity: {value: 0.15}, defined: seen}}},
        {type: "line", from: {data: "one"}, encode: {update: {...place, y: {scale: "y", field: "y"}, defined: seen,
          strokeWidth: {value: 1.8}, strokeDash: {field: "dash"}, description: {field: "said"}}}},
        ...chart.points ? [{type: "symbol", aria: false, from: {data: "one"}, encode: {update: {...place,
          y: {scale: "y", field: "y"}, fill: {field: "colour"}, size: {value: 30}, cursor: {value: "pointer"},
          opacity: {signal: "isValid(datum.y) ? 1 : 0"}}}}] : [],
      ]},
      {type: "line", from: {data: "rules"}, encode: {update: {x: place.x, y: {scale: "y", field: "y"}, defined: seen,
        strokeDash: {value: [2, 3]}, strokeWidth: {value: 1.5}, stroke: {value: "#888888"}, description: {field: "said"}}}},
      {type: "rule", aria: false, from: {data: "cursor"}, encode: {update: {x: {scale: "x", field: "x"}, y: {value: 0},
        y2: high, stroke: {value: "#888888"}}}},
    ]}],
  };
}

/** Numbers that an axis has a place for; what is not finite, or not positive on a logarithmic axis, is a gap. */
function fit(chart, drawn) {
  const fits = (value, log) => Number.isFinite(value) && (value > 0 || !log);
  return drawn.flatMap(({method, rows}) => {
    const shown = rows.filter(({x}) => fits(x, chart.log.x)), ends = [shown[0], shown.at(-1)].map((row) => text(row?.y));
    const look = {s: method, colour: colour(method), dash: content.methods[method].dash,
      said: `${content.methods[method].words}: from ${ends[0]} to ${ends[1]}`};
    return shown.map((row) => {
      const y = fits(row.y, chart.log.y) ? row.y : null;
      return {...look, ...row, y, low: fits(row.low, chart.log.y) ? row.low : y, high: fits(row.high, chart.log.y) ? row.high : y};
    });
  });
}

function extent(numbers) {
  let low = Infinity, high = -Infinity;
  for (const value of numbers) if (value !== null) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return low > high ? [1, 10] : low === high ? low > 0 ? [low / 1.5, high * 1.5] : [low - 1, high + 1] : [low, high];
}

/** The same interval with some room at both ends. */
function margin([low, high], log) {
  const room = log ? (high / low) ** 0.04 : (high - low) * 0.04;
  return log ? [low / room, high * room] : [low - room, high + room];
}

/** Ticks of a logarithmic axis: powers of ten, seven at most, or 1, 2, 5 where these are few; else what Vega chooses. */
function decades([low, high], log) {
  if (!log) return null;
  const [first, last] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
  if (last - first < 2)
    return Array.from({length: last - first + 3}, (_, k) => [1, 2, 5].map((digit) => Number(`${digit}e${first + k - 1}`))).flat()
      .filter((tick) => tick >= low && tick <= high);
  const stride = Math.ceil((last - first + 1) / 7);
  return Array.from({length: Math.floor((last - first) / stride) + 1}, (_, k) => Number(`1e${first + k * stride}`));
}

function drawLines(chart) {
  const drawn = chart.series(), rows = fit(chart, drawn), guaranteed = content.plan && chart.rules?.(drawn) || [], rules = fit(chart, guaranteed);
  const across = chart.zooms && state.zoom ? state.zoom.split(",").map(Number) : extent(rows.map(({x}) => x));
  const inside = [...rows, ...rules].filter(({x}) => x >= across[0] && x <= across[1]);
  const up = margin(extent(inside.flatMap(({y, low, high}) => [y, low, high])), chart.log.y);
  const at = chart.mark();
  chart.view.signal("xs", across).signal("ys", up).signal("xticks", decades(across, chart.log.x))
    .signal("yticks", decades(up, chart.log.y)).data("rows", rows).data("rules", rules)
    .data("cursor", at === null ? [] : [{x: at}]).run();
  chart.drawn = drawn;
  const ends = drawn.map(({method, rows, at: own}) => {
    const row = at === null ? rows.at(-1) : least(rows, ({x}) => apart(x, at)) ?? rows.at(-1);
    const band = state.seed === "mean" && seeds.length > 1 && drawn.length < 5 ? ` [${text(row.low)}, ${text(row.high)}]` : "";
    return {method, numbers: spelled(own), x: row.x, said: `${text(row.y)}${band}`};
  });
  chart.readout.replaceChildren(element("b", {}, ends.length ? `${chart.across()} ${chart.zooms ? text(at ?? ends[0].x) : text0(at)}` : "nothing to show"),
    ...ends.map(({method, said}) => element("span", {}, swatch(method), ` ${content.methods[method].words}: ${said}`)),
    ...guaranteed.map(({name, rows}) => element("span", {}, `${name}, dotted: ${text(Number(rows.at(-1).y.toPrecision(4)))}`)));
  chart.table = () => [["method", chart.across(), chart.title, "10 %", "90 %"], ...drawn.flatMap(({method, rows}) =>
    rows.map(({x, y, low, high}) => [content.methods[method].words, text(x), text(y), text(low), text(high)]))];
}

function heat(chart, _, width) {
  const axes = {x: state.across, y: state.up};
  const side = (name) => ({...axis(name, symbol(axes[name])), grid: false, format: undefined});
  return {
    width, height: 240, padding: 2, autosize: {type: "fit", contains: "padding", resize: true}, description: chart.title,
    signals: [{name: "cs", value: [1, 10]}], data: [{name: "cells"}, {name: "now"}],
    scales: [
      {name: "x", type: "band", domain: values[axes.x].map(text0), range: "width"},
      {name: "y", type: "band", domain: values[axes.y].map(text0).reverse(), range: "height"},
      {name: "c", type: "log", domain: {signal: "cs"}, range: {scheme: "viridis"}, reverse: true},
    ],
    axes: [side("x"), side("y")],
    legends: [{fill: "c", format: "~g", gradientLength: 150, labelFontSize: 11, tickCount: 4}],
    marks: [
      {type: "rect", from: {data: "cells"}, encode: {update: {x: {scale: "x", field: "x"}, y: {scale: "y", field: "y"},
        width: {scale: "x", band: 1}, height: {scale: "y", band: 1}, cursor: {value: "pointer"}, tooltip: {field: "said"},
        description: {field: "said"}, fill: [{test: "!isValid(datum.c)", value: "#999999"}, {scale: "c", field: "c"}]}}},
      {type: "rect", aria: false, interactive: false, from: {data: "now"}, encode: {update: {x: {scale: "x", field: "x"},
        y: {scale: "y", field: "y"}, width: {scale: "x", band: 1}, height: {scale: "y", band: 1},
        stroke: {value: "#D55E00"}, strokeWidth: {value: 3}, fill: {value: "transparent"}}}},
    ],
  };
}

function drawHeat(chart) {
  const now = chosen(Number(state.heat)), {across, up} = state;
  const place = ({at}) => ({x: text0(at[across]), y: text0(at[up]), at});
  const cells = (now && across in now.at && up in now.at ? alike(now, [across, up]) : []).map((each) => {
    const {y} = scored(each);
    const said = `${symbol(across)} = ${text0(each.at[across])}, ${symbol(up)} = ${text0(each.at[up])}: ${text(y)}`;
    return {...place(each), c: y > 0 ? y : null, said, score: y};
  });
  chart.view.signal("cs", extent(cells.map(({c}) => c))).data("cells", cells).data("now", cells.length ? [place(now)] : []).run();
  const best = least(cells, ({c}) => c ?? Infinity), name = content.methods[Number(state.heat)].words;
  chart.readout.textContent = best ? `${name}: smallest at ${best.said}` : `${name} has not been run over these two numbers.`;
  chart.table = () => [[symbol(across), symbol(up), scoreTitle()], ...cells.map(({x, y, score}) => [x, y, text(score)])];
}

const scoreTitle = () => content.scores.find(({key}) => key === state.score).title;

function makeCharts() {
  const across = () => STEPS[state.x], log = () => ({x: state.xscale === "log", y: state.yscale === "log"});
  const mark = () => cursor;
  const curves = content.curves.filter(({key}) => key !== "sfo").map(({key, title}) => ({
    id: key, title, across, mark, logs: log, zooms: true, spec: lines, draw: drawLines, series: () => series(key), rules: guarantees[key],
  }));
  const ratio = (field) => values[field][0] > 0 && values[field].at(-1) > 20 * values[field][0];
  const scores = numeric.map((field) => ({
    id: `score-${field}`, title: `Score against ${symbol(field)}`, across: () => symbol(field), mark: () => state[field],
    logs: () => ({x: ratio(field), y: state.yscale === "log"}), points: true, spec: lines, draw: drawLines, series: () => tuning(field),
  }));
  const map = {id: "map", title: "Score over two numbers", spec: heat, draw: drawHeat, logs: () => ({})};
  charts = [...curves, ...scores, ...numeric.length > 1 ? [map] : []];
}

/** What a theorem guarantees, drawn where it belongs: the bound at T, and (γk)², how far normalized steps can be. */
const guarantees = {
  mean_grad_norm: (drawn) => drawn.slice(0, 1).map(({method, rows}) =>
    ({method, name: `bound for T = ${text(content.plan.horizon)}`, rows: rows.map(({x}) => ({x, y: content.plan.bound}))})),
  drift2: (drawn) => drawn.slice(0, 1).map(({method, rows}) => {
    const {steps} = content.groups[chosen(method).group];
    return {method, name: "(γT)²", rows: rows.map(({x}, k) => ({x, y: (content.plan.gamma * steps[k]) ** 2}))};
  }),
};

// ---- The page

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) key.startsWith("on") ? made[key] = value : made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function swatch(method) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), line = document.createElementNS(svg.namespaceURI, "path");
  for (const [key, value] of Object.entries({class: "swatch", viewBox: "0 0 28 8", "aria-hidden": "true"})) svg.setAttribute(key, value);
  const look = {d: "M0 4H28", stroke: colour(method), "stroke-width": 2.2, "stroke-dasharray": content.methods[method].dash.join(" ")};
  for (const [key, value] of Object.entries(look)) line.setAttribute(key, value);
  svg.append(line);
  return svg;
}

function choice(key, label, options) {
  const menu = element("select", {id: `choose-${key}`, onchange: () => set({[key]: menu.value}, true)},
    ...options.map(([value, words]) => element("option", {value}, words)));
  return element("label", {}, `${label} `, menu);
}

function slider(field) {
  const input = element("input", {type: "range", id: `slide-${field}`, min: 0, max: values[field].length - 1, step: 1,
    oninput: () => set({[field]: values[field][input.valueAsNumber]})});
  return element("label", {}, element("span", {}, symbol(field)), input, element("output", {for: input.id}));
}

function makeControls() {
  $("methods").replaceChildren(...content.methods.map(({words}, method) =>
    element("button", {type: "button", onclick: () => toggle(method)}, swatch(method), words)));
  $("sliders").replaceChildren(...numeric.map(slider));
  const names = numeric.map((field) => [field, symbol(field)]);
  $("choices").replaceChildren(
    ...words.map((field) => choice(field, symbol(field), values[field].map((value) => [value, value]))),
    choice("seed", "seeds", [["mean", "mean over seeds"], ...seeds.map((seed) => [seed, `seed ${seed}`])]),
    choice("x", "against", Object.entries(STEPS)), choice("xscale", "horizontal", Object.entries(SCALES)),
    choice("yscale", "vertical", Object.entries(SCALES)),
    ...numeric.length ? [choice("score", "score", content.scores.map(({key, title}) => [key, title]))] : [],
    ...numeric.length > 1 ? [choice("heat", "map of", content.methods.map(({words}, method) => [method, words]))] : [],
    ...numeric.length > 2 ? [choice("across", "map across", names), choice("up", "map up", names)] : [],
    element("button", {type: "button", id: "reset", onclick: () => set({zoom: ""})}, "Reset zoom"),
    element("button", {type: "button", id: "copy", onclick: copy}, content.configurations[0].command ? "Copy as command" : "Copy as Python"),
  );
}

function toggle(method) {
  const now = hidden();
  now.delete(method) || now.add(method);
  set({hide: [...now].sort((a, b) => a - b).join(",")});
}

/** The current setting as a command that runs it again, or as the Python that selects it from the record. */
function command() {
  const shown = visible().map(chosen).filter(Boolean);
  if (!shown.length) return "";
  if (shown[0].command) {
    const quoted = (words) => /[^\w.:=+-]/.test(words) ? `"${words.replace(/["$`\\]/g, "\\$&")}"` : words;
    const options = [...new Set(shown.flatMap(({command: {options}}) => options.map(([name, value]) => value ? `${name} ${quoted(value)}` : name)))];
    return [...options, ...shown.map(({command: {method}}) => `--method ${quoted(method)}`)].join(" ");
  }
  return shown.map(({method, at}) => {
    const numbers = Object.entries(at).filter(([, value]) => typeof value === "number" );
    const given = numbers.map(([field, value]) => field.includes(".") ? `**{${JSON.stringify(field)}: ${value}}` : `${field}=${value}`);
    return `record[${JSON.stringify(content.methods[method].name)}]${given.length ? `.where(${given.join(", ")})` : ""}`;
  }).join("\n");
}

async function copy() {
  try {
    await navigator.clipboard.writeText(command());
    $("status").textContent = `Copied: ${command()}`;
  } catch { // a browser that does not let a file copy: the words are there to be selected
    $("status").textContent = command();
  }
}

function makeFigures() {
  $("charts").replaceChildren(...charts.map((chart) => {
    chart.place = element("div", {class: "chart", tabindex: 0, role: "group", "aria-label": `${chart.title}; arrow keys read it, + and − zoom`});
    chart.readout = element("p", {class: "readout"});
    chart.cells = element("div", {class: "scroll"});
    chart.details = element("details", {ontoggle: () => fillTable(chart)}, element("summary", {}, "Table"), chart.cells);
    if (chart.zooms) listen(chart);
    return element("figure", {id: chart.id}, element("figcaption", {}, chart.title), chart.place, chart.readout, chart.details);
  }));
}

function fillTable(chart) {
  if (!chart.details.open) return;
  const [head, ...body] = chart.table();
  chart.cells.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...head.map((cell) => element("th", {scope: "col"}, cell)))),
    element("tbody", {}, ...body.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell)))))));
}

/** Build the charts' views: once, and again where an axis changes its kind or the window its width. */
async function build() {
  const options = {mode: "vega", renderer: "svg", actions: false, tooltip: {theme: dark.matches ? "dark" : "light"}};
  await Promise.all(charts.map(async (chart) => {
    const log = chart.logs(), {view} = await vegaEmbed(chart.place, chart.spec(chart, log, chart.place.clientWidth), options);
    chart.view?.finalize();
    [chart.view, chart.log] = [view, log];
    if (!chart.zooms) view.addEventListener("click", (_, item) => item?.datum?.at && set(known(item.datum.at)));
  }));
}

const known = (at) => Object.fromEntries(Object.entries(at).filter(([field]) => fields.includes(field)));

function set(change, rebuild = false) {
  Object.assign(state, change);
  render(rebuild);
}

async function render(rebuild = false) {
  if (rebuild) await (built = built.then(build)); // one after the other, and the last one last
  const off = hidden();
  for (const [method, button] of [...$("methods").children].entries()) {
    const now = chosen(method);
    button.setAttribute("aria-pressed", String(!off.has(method)));
    button.title = now ? spelled(now.at) : "not run here";
  }
  for (const field of numeric) {
    const input = $(`slide-${field}`);
    input.value = values[field].indexOf(state[field]);
    input.nextSibling.value = text0(state[field]);
    input.setAttribute("aria-valuetext", `${symbol(field)} = ${text0(state[field])}`);
  }
  for (const menu of $("choices").querySelectorAll("select")) menu.value = state[menu.id.replace("choose-", "")];
  $("reset").disabled = !state.zoom;
  for (const chart of charts) {
    chart.draw(chart);
    fillTable(chart);
  }
  write();
}

// ---- Reading and zooming a chart

function listen(chart) {
  const invert = (event) => {
    const left = chart.place.querySelector("svg").getBoundingClientRect().left + chart.view.origin()[0];
    return chart.view.scale("x").invert(event.clientX - left);
  };
  let from = null;
  const move = (x) => {
    const rows = chart.drawn[0]?.rows;
    cursor = x === null || !rows ? null : least(rows, (row) => apart(row.x, x))?.x ?? null;
    for (const each of charts) if (each.zooms) each.draw(each);
  };
  const zoom = (low, high) => low > 0 || state.xscale !== "log" ? set({zoom: `${low},${high}`}) : null;
  const scale = (factor) => {
    const log = state.xscale === "log", [f, g] = log ? [Math.log, Math.exp] : [(v) => v, (v) => v];
    const [low, high] = chart.view.signal("xs").map(f), middle = cursor === null ? (low + high) / 2 : f(cursor);
    zoom(g(middle - (middle - low) * factor), g(middle + (high - middle) * factor));
  };
  const step = (by) => {
    const rows = chart.drawn[0]?.rows ?? [], now = cursor === null ? rows.length - 1 : rows.findIndex(({x}) => x === cursor);
    if (rows.length) move(rows[Math.min(Math.max(now + by, 0), rows.length - 1)].x);
  };
  const keys = {ArrowRight: () => step(1), ArrowLeft: () => step(-1), Home: () => step(-1e9), End: () => step(1e9),
    "+": () => scale(0.5), "=": () => scale(0.5), "-": () => scale(2), Escape: () => { cursor = null; set({zoom: ""}); }};
  chart.place.onkeydown = (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  };
  chart.place.onpointermove = (event) => move(invert(event));
  chart.place.onpointerleave = () => { from = null; move(null); };
  chart.place.onpointerdown = (event) => { from = event.pointerType === "mouse" ? event : null; };
  chart.place.onpointerup = (event) => {
    if (from && Math.abs(event.clientX - from.clientX) > 8) zoom(...[invert(from), invert(event)].sort((a, b) => a - b));
    from = null;
  };
  chart.place.ondblclick = () => set({zoom: ""});
}

async function open() {
  for (const group of content.groups)
    [group.curves, group.scores] = await Promise.all([unpack(group.curves), unpack(group.scores)]);
  initial = defaults();
  read();
  const [{steps, recorded}] = content.groups, many = content.configurations.length;
  $("about").textContent = `${many.toLocaleString("en")} configuration${many > 1 ? "s" : ""}, ${seeds.length} seed${seeds.length > 1 ? "s" : ""}. Curves show ${steps.length} of ` +
    `${recorded.toLocaleString("en")} recorded steps, numbers to four digits; lines are means over seeds, bands go from the 10 % to the 90 % quantile.`;
  makeCharts();
  makeControls();
  makeFigures();
  await render(true);
  let width = innerWidth;
  addEventListener("resize", () => { if (width !== innerWidth) render(true); width = innerWidth; });
  addEventListener("hashchange", () => { read(); render(true); });
  dark.addEventListener("change", () => { makeControls(); render(); });
  document.body.dataset.ready = "true";
}

open().catch((problem) => { $("status").textContent = `This page cannot be shown: ${problem.message}`; throw problem; });
