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

const narrow = matchMedia("(max-width: 40rem)"); // a phone shows the charts first

function makeControls() {
  $("methods").replaceChildren(...content.methods.map(({words}, method) =>
    element("button", {type: "button", onclick: () => toggle(method)}, swatch(method), words)));
  $("sliders").replaceChildren(...numeric.map(slider));
  const names = numeric.map((field) => [field, symbol(field)]), [one] = content.configurations;
  const more = [
    ...one ? [choice("seed", "seeds", [["mean", "mean over seeds"], ...seeds.map((seed) => [seed, `seed ${seed}`])]),
      choice("x", "against", Object.entries(STEPS)), choice("xscale", "horizontal", Object.entries(SCALES)),
      choice("yscale", "vertical", Object.entries(SCALES))] : [],
    ...numeric.length ? [choice("score", "score", content.scores.map(({key, title}) => [key, title]))] : [],
    ...numeric.length > 1 ? [choice("heat", "map of", content.methods.map(({words}, method) => [method, words]))] : [],
    ...numeric.length > 2 ? [choice("across", "map across", names), choice("up", "map up", names)] : [],
    element("button", {type: "button", id: "reset", onclick: () => set(zooms())}, "Reset zoom"),
    ...one ? [element("button", {type: "button", id: "copy", onclick: copy}, one.command ? "Copy as command" : "Copy as Python")] : [],
  ];
  $("choices").replaceChildren(
    ...words.map((field) => choice(field, symbol(field), values[field].map((value) => [value, value]))),
    element("details", narrow.matches ? {id: "more"} : {id: "more", open: ""}, element("summary", {}, "More controls"), element("div", {}, ...more)),
  );
}

const zooms = () => Object.fromEntries(charts.filter(({zoom}) => zoom).map(({zoom}) => [zoom, ""]));

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
    return [...options, ...shown.flatMap(({command: {method}}) => method ? [`--method ${quoted(method)}`] : [])].join(" ");
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
    if (chart.zoom) listen(chart);
    return element("figure", {id: chart.id}, element("figcaption", {}, chart.title), chart.place, chart.readout, chart.details);
  }));
}

function table([head, ...body]) {
  return element("table", {}, element("thead", {}, element("tr", {}, ...head.map((cell) => element("th", {scope: "col"}, cell)))),
    element("tbody", {}, ...body.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell))))));
}

function fillTable(chart) {
  if (chart.details.open) chart.cells.replaceChildren(table(chart.table()));
}

/** What the page says beside its charts: sentences, and tables to unfold. */
function makeWords() {
  $("words").replaceChildren(...content.sentences.map((sentence) => element("p", {}, sentence)), ...content.tables.map(({title, open, rows}) =>
    element("details", open ? {open} : {}, element("summary", {}, title), element("div", {class: "wide"}, table(rows)))));
}

/** Build the charts' views: once, and again where an axis changes its kind or the window its width. */
async function build() {
  const options = {mode: "vega", renderer: "svg", actions: false, tooltip: {theme: dark.matches ? "dark" : "light"}};
  await Promise.all(charts.map(async (chart) => {
    const log = chart.logs(), {view} = await vegaEmbed(chart.place, chart.spec(chart, log, chart.place.clientWidth), options);
    chart.view?.finalize();
    [chart.view, chart.log] = [view, log];
    if (!chart.zoom) view.addEventListener("click", (_, item) => item?.datum?.at && set(known(item.datum.at)));
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
  $("reset").disabled = Object.keys(zooms()).every((key) => !state[key]);
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
    cursors[chart.zoom] = x === null || !rows ? null : least(rows, (row) => apart(row.x, x))?.x ?? null;
    for (const each of charts) if (each.zoom === chart.zoom || each.follows === chart.zoom) each.draw(each);
  };
  const zoom = (low, high) => low > 0 || !chart.log.x ? set({[chart.zoom]: `${low},${high}`}) : null;
  const scale = (factor) => {
    const cursor = cursors[chart.zoom] ?? null, [f, g] = chart.log.x ? [Math.log, Math.exp] : [(v) => v, (v) => v];
    const [low, high] = chart.view.signal("xs").map(f), middle = cursor === null ? (low + high) / 2 : f(cursor);
    zoom(g(middle - (middle - low) * factor), g(middle + (high - middle) * factor));
  };
  const step = (by) => {
    const cursor = cursors[chart.zoom] ?? null, rows = chart.drawn[0]?.rows ?? [], now = cursor === null ? rows.length - 1 : rows.findIndex(({x}) => x === cursor);
    if (rows.length) move(rows[Math.min(Math.max(now + by, 0), rows.length - 1)].x);
  };
  const keys = {ArrowRight: () => step(1), ArrowLeft: () => step(-1), Home: () => step(-1e9), End: () => step(1e9),
    "+": () => scale(0.5), "=": () => scale(0.5), "-": () => scale(2), Escape: () => { cursors[chart.zoom] = null; set({[chart.zoom]: ""}); }};
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
  chart.place.ondblclick = () => set({[chart.zoom]: ""});
}

async function open() {
  for (const group of content.groups)
    [group.curves, group.scores, group.path] = await Promise.all([group.curves, group.scores, group.path].map((each) => each && unpack(each)));
  initial = defaults();
  read();
  const [{steps, recorded} = {}] = content.groups, many = content.configurations.length;
  $("about").textContent = content.about || `${many.toLocaleString("en")} configuration${many > 1 ? "s" : ""}, ${seeds.length} seed${seeds.length > 1 ? "s" : ""}. Curves show ${steps.length} of ` +
    `${recorded.toLocaleString("en")} recorded steps, numbers to four digits; lines are means over seeds, bands go from the 10 % to the 90 % quantile.`;
  makeCharts();
  makeControls();
  makeWords();
  makeFigures();
  await render(true);
  let width = innerWidth;
  addEventListener("resize", () => { if (width !== innerWidth) render(true); width = innerWidth; });
  addEventListener("hashchange", () => { read(); render(true); });
  for (const query of [dark, narrow]) query.addEventListener("change", () => { makeControls(); render(); });
  document.body.dataset.ready = "true";
}

open().catch((problem) => { $("status").textContent = `This page cannot be shown: ${problem.message}`; throw problem; });
