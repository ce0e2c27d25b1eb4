// ---- Charts

const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = (method) => {
  const own = content.methods[method].colour;
  return dark.matches && own === "#000000" ? "#FFFFFF" : own;
};
const axis = (scale, title, log = false) => ({scale, title, orient: scale === "x" ? "bottom" : "left", grid: true, tickCount: 5,
  labelOverlap: true, labelFlush: scale === "x", ...log ? {format: "~g"} : {}, labelFontSize: 11, titleFontSize: 11, titleFontWeight: "normal"});

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
    axes: [{...axis("x", chart.across(), log.x), values: {signal: "xticks"}}, {...axis("y", null, log.y), values: {signal: "yticks"}}],
    marks: [{type: "group", clip: true, encode: {update: {width: wide, height: high}}, marks: [
      {type: "group", from: {facet: {name: "one", data: "rows", groupby: "s"}}, marks: [
        {type: "area", aria: false, from: {data: "one"}, encode: {update: {x: place.x, y: {scale: "y", field: "low"},
          y2: {scale: "y", field: "high"}, fill: {field: "colour"}, fillOpacity: {value: 0.15}, defined: seen}}},
        {type: "line", from: {data: "one"}, encode: {update: {...place, y: {scale: "y", field: "y"}, defined: seen,
          strokeWidth: {field: "wide"}, strokeDash: {field: "dash"}, description: {field: "said"}}}},
        ...chart.points ? [{type: "symbol", aria: false, from: {data: "one"}, encode: {update: {...place,
          y: {scale: "y", field: "y"}, fill: {field: "colour"}, size: {field: "dot"}, cursor: {value: "pointer"},
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
  return drawn.flatMap(({method, rows, wide = 1.8, dot = 30}) => {
    const shown = rows.filter(({x}) => fits(x, chart.log.x)), ends = [shown[0], shown.at(-1)].map((row) => text(row?.y));
    const look = {s: method, wide, dot, colour: colour(method), dash: content.methods[method].dash,
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
  const zoomed = state[chart.zoom], across = zoomed ? zoomed.split(",").map(Number) : extent(rows.map(({x}) => x));
  const inside = [...rows, ...rules].filter(({x}) => x >= across[0] && x <= across[1]);
  const lowest = chart.log.y ? extent(inside.map(({y}) => y))[0] / 30 : -Infinity; // a band may reach down to 0, out of the chart
  const up = margin(extent(inside.flatMap(({y, low, high}) => [y, low && Math.max(low, lowest), high])), chart.log.y);
  const at = chart.mark();
  chart.view.signal("xs", across).signal("ys", up).signal("xticks", decades(across, chart.log.x))
    .signal("yticks", decades(up, chart.log.y)).data("rows", rows).data("rules", rules)
    .data("cursor", at === null ? [] : [{x: at}]).run();
  chart.drawn = drawn;
  const number = chart.zoom ? text : text0;
  const ends = drawn.map(({method, rows, at: own}) => {
    const row = at === null ? rows.at(-1) : least(rows, ({x}) => apart(x, at)) ?? rows.at(-1);
    const band = state.seed === "mean" && seeds.length > 1 && drawn.length < 5 ? ` [${text(row.low)}, ${text(row.high)}]` : "";
    const x = at ?? drawn[0].rows.at(-1).x, elsewhere = row.x === x ? [] : [`${chart.across()} ${number(row.x)}`];
    return {method, x, said: [`${text(row.y)}${band}`, ...elsewhere, ...notChosen(own)].join(" at ")};
  });
  chart.readout.replaceChildren(element("b", {}, ends.length ? `${chart.across()} ${number(ends[0].x)}` : "nothing to show"),
    ...ends.map(({method, said}) => element("span", {}, swatch(method), ` ${content.methods[method].words}: ${said}`)),
    ...guaranteed.map(({name, rows}) => element("span", {}, `${name}, dotted: ${text(Number(rows.at(-1).y.toPrecision(4)))}`)));
  chart.table = () => [["method", chart.across(), chart.title, "10 %", "90 %"], ...drawn.flatMap(({method, rows}) =>
    rows.map(({x, y, low, high}) => [content.methods[method].words, text(x), text(y), text(low), text(high)]))];
}

/** The numbers of a configuration that are not those of the sliders: the nearest that was run. */
const notChosen = (at) => numeric.filter((field) => field in at && at[field] !== state[field]).map((field) => `${symbol(field)} ${text0(at[field])}`);

function heat(chart, _, width) {
  const axes = {x: state.across, y: state.up};
  const side = (name) => ({...axis(name, symbol(axes[name])), grid: false});
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
  const mark = (zoom) => () => cursors[zoom] ?? null;
  const curves = content.curves.filter(({key}) => key !== "sfo").map(({key, title}) => ({
    id: key, title, across, mark: mark("zoom"), logs: log, zoom: "zoom", spec: lines, draw: drawLines, series: () => series(key),
    rules: guarantees[key],
  }));
  const ratio = (field) => values[field][0] > 0 && values[field].at(-1) > 20 * values[field][0];
  const scores = numeric.map((field) => ({
    id: `score-${field}`, title: `Score against ${symbol(field)}`, across: () => symbol(field), mark: () => state[field],
    logs: () => ({x: ratio(field), y: state.yscale === "log"}), points: true, spec: lines, draw: drawLines, series: () => tuning(field),
  }));
  const map = {id: "map", title: "Score over two numbers", spec: heat, draw: drawHeat, logs: () => ({})};
  const given = content.charts.map(({id, title, across, logs, points, series}) => ({
    id, title, across: () => across, mark: mark(`zoom-${id}`), logs: () => logs, zoom: `zoom-${id}`, points, spec: lines, draw: drawLines,
    series: () => series.filter(({method}) => !hidden().has(method)).map(({method, rows, wide, dot}) =>
      ({method, wide, dot, at: {}, rows: rows.map(([x, y, low, high]) => ({x, y: y ?? NaN, low: low ?? y ?? NaN, high: high ?? y ?? NaN}))})),
  }));
  charts = [...content.landscapes.length ? [pathChart] : [], ...curves, ...scores, ...numeric.length > 1 ? [map] : [], ...given];
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

