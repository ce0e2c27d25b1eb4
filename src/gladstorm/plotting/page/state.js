"use strict";
// The page of `explore`: controls → one setting per method → linked charts, drawn by Vega. One script in four files:
// state.js (numbers, what is shown), charts.js, path.js, controls.js (the page, reading and zooming).

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
  return content.symbols[field] ?? content.symbols[name] ?? name;
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
const cursors = {}; // where a chart is read, by the zoom that it shares with others
let state, initial, charts = [], built = Promise.resolve();

function defaults() {
  const start = {seed: "mean", x: "sfo", xscale: "log", yscale: "log", score: SCORES[0], hide: "", zoom: "", heat: "0"};
  [start.across, start.up] = [numeric.at(-1) ?? "", numeric.at(-2) ?? ""];
  for (const {id} of content.charts) start[`zoom-${id}`] = "";
  for (const field of words) start[field] = values[field][0];
  const first = content.configurations.filter(({method, at}) =>
    method === 0 && words.every((field) => !(field in at) || at[field] === start[field]));
  const best = least(first, (each) => score(each, MEAN)) ?? content.configurations[0];
  for (const field of numeric) start[field] = content.view[field] ?? best.at[field] ?? values[field][values[field].length >> 1];
  return {...start, ...content.view};
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
    const {[field]: _, ...others} = now.at;
    drawn.push({method, at: others, rows: rows.sort((a, b) => a.x - b.x)});
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

