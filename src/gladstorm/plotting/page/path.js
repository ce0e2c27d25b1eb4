// ---- The path of one or two numbers, on the contours of f, with the noise of a stochastic gradient along it

const APART = 0.09, CORNERS = 28; // how far apart clouds are, relative to the box; corners of an ellipse
const pathChart = {id: "path", title: "The path", spec: plane, draw: drawPath, logs: () => ({}), follows: "zoom"};

function plane(chart, _, width) {
  const place = {x: {scale: "x", field: "x"}, y: {scale: "y", field: "y"}};
  const line = (data, look, groupby = "s") => ({type: "group", from: {facet: {name: `one ${data}`, data, groupby}}, marks: [
    {type: "line", from: {data: `one ${data}`}, encode: {update: {...place, defined: {signal: "isValid(datum.x)"}, ...look}}}]});
  const drawn = {stroke: {field: "colour"}, strokeWidth: {value: 1.6}, strokeDash: {field: "dash"}, strokeJoin: {value: "round"}, description: {field: "said"}};
  return {
    width, height: 240, padding: 2, autosize: {type: "fit", contains: "padding", resize: true}, description: chart.title,
    signals: ["xs", "ys"].map((name) => ({name, value: [0, 1]})),
    data: ["contours", "clouds", "paths", "marks"].map((name) => ({name})),
    scales: [{name: "x", type: "linear", domain: {signal: "xs"}, range: "width", zero: false},
      {name: "y", type: "linear", domain: {signal: "ys"}, range: "height", zero: false}],
    axes: [{...axis("x", "x₁"), grid: false}, {...axis("y", content.landscapes[0].shape.length > 1 ? "x₂" : "f"), grid: false}],
    marks: [{type: "group", clip: true, encode: {update: {width: {signal: "width"}, height: {signal: "height"}}}, marks: [
      line("contours", {stroke: {value: "#888888"}, strokeWidth: {value: 0.7}, strokeOpacity: {value: 0.7}}),
      line("clouds", {fill: {field: "colour"}, fillOpacity: {value: 0.14}, stroke: {field: "colour"}, strokeOpacity: {value: 0.5}, strokeWidth: {value: 0.6}}),
      line("paths", drawn),
      {type: "symbol", aria: false, from: {data: "marks"}, encode: {update: {...place, fill: {field: "colour"}, shape: {field: "shape"},
        size: {field: "size"}, stroke: {value: "#ffffff"}, strokeWidth: {value: 0.8}}}},
    ]}],
  };
}

/** Lines on which f has a level, as ends of segments with a gap after each: the crossings of every cell, joined in pairs. */
function contours({box: [[left, right], [low, high]], shape: [across, up], values, levels}) {
  const x = (i) => left + (right - left) * i / (across - 1), y = (j) => low + (high - low) * j / (up - 1), rows = [];
  for (const level of levels)
    for (let j = 0; j + 1 < up; j++)
      for (let i = 0; i + 1 < across; i++) {
        const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]], crossings = [];
        corners.forEach(([a, b], k) => {
          const [c, d] = corners[(k + 1) % 4], from = values[b * across + a], to = values[d * across + c];
          if (from === null || to === null || from < level === to < level) return;
          const share = (level - from) / (to - from);
          crossings.push({s: 0, x: x(a + share * (c - a)), y: y(b + share * (d - b))});
        });
        for (let k = 0; k + 1 < crossings.length; k += 2) rows.push(crossings[k], crossings[k + 1], {s: 0, x: null, y: null});
      }
  return rows;
}

/** f itself, where x is one number. */
function graph({box: [[left, right]], values}) {
  return values.map((value, i) => ({s: 0, x: left + (right - left) * i / (values.length - 1), y: value}));
}

/** Variances and covariance of a sample's gradient at a point, by the three nearest nodes of a grid along each axis: exact
 *  where they are quadratic, as those of Blum–Gladyshev noise. Null outside of the grid. */
function noiseAt({covariances, shape}, box, at) {
  let nodes = [[0, 1]]; // [place in the list, weight]
  let stride = 1;
  for (const [k, count] of shape.entries()) {
    const place = (at[k] - box[k][0]) / (box[k][1] - box[k][0]) * (count - 1);
    if (!(place >= 0 && place <= count - 1)) return null;
    const middle = Math.min(Math.max(Math.round(place), 1), count - 2), s = place - middle, now = stride;
    const weights = [s * (s - 1) / 2, 1 - s * s, s * (s + 1) / 2];
    nodes = nodes.flatMap(([at, weight]) => weights.map((each, near) => [at + now * (middle + near - 1), weight * each]));
    stride *= count;
  }
  return [0, 1, 2].map((k) => nodes.reduce((sum, [at, weight]) => sum + weight * covariances[at][k], 0));
}

/** The ellipse of one standard deviation around a point. */
function ellipse([a, b, c], scale, at) {
  const middle = (a + b) / 2, reach = Math.hypot((a - b) / 2, c), turn = Math.atan2(2 * c, a - b) / 2;
  const [long, short] = [middle + reach, middle - reach].map((each) => scale * Math.sqrt(Math.max(each, 0)));
  return Array.from({length: CORNERS + 1}, (_, k) => {
    const [u, v] = [long * Math.cos(2 * Math.PI * k / CORNERS), short * Math.sin(2 * Math.PI * k / CORNERS)];
    return {x: at[0] + u * Math.cos(turn) - v * Math.sin(turn), y: at[1] + u * Math.sin(turn) + v * Math.cos(turn)};
  });
}

/** The path of the chosen seed, or of the first: rows {t, x, y, noise}, t as on the horizontal axes of the curves. */
function paths() {
  return visible().flatMap((method) => {
    const now = chosen(method), group = now && content.groups[now.group];
    if (!group?.path) return [];
    const place = group.seeds.indexOf(Number(state.seed)), row = SEEDS + Math.max(place, 0), noise = content.noises[now.group];
    const [xs, ys] = [0, 1].map((k) => group.path(k, now.row, row)), {box} = content.landscapes[noise.landscape];
    const ts = state.x === "step" ? group.steps : group.curves(CURVES.indexOf("sfo"), now.row, row);
    return [{method, noise, seed: group.seeds[row - SEEDS], rows: ts.map((t, k) =>
      ({t, x: xs[k], y: ys[k], noise: noiseAt(noise, box, [xs[k], ys[k]])}))}];
  });
}

function drawPath(chart) {
  const drawn = paths(), {view} = chart;
  const landscape = content.landscapes[drawn[0]?.noise.landscape ?? 0], flat = landscape.shape.length === 1;
  if (chart.shown !== view || chart.landscape !== landscape)
    view.signal("xs", landscape.box[0]).signal("ys", landscape.box[1]).data("contours", flat ? graph(landscape) : contours(landscape));
  [chart.shown, chart.landscape] = [view, landscape];
  const at = cursors.zoom ?? null, clouds = [], lines = [], marks = [];
  for (const {method, noise, rows} of drawn) {
    const look = {s: method, colour: colour(method), dash: content.methods[method].dash}, finite = rows.filter(({x, y}) => Number.isFinite(x) && Number.isFinite(y));
    lines.push(...finite.map(({x, y}) => ({...look, x, y, said: `${content.methods[method].words}: the path`})));
    const {box} = landscape, [across, up] = box.map(([low, high]) => high - low);
    let last = null;
    for (const row of finite.filter((each) => each.noise)) {
      if (last && Math.hypot((row.x - last.x) / across, (row.y - last.y) / up) < APART) continue;
      clouds.push(...ellipse(row.noise, noise.scale, [row.x, row.y]).map((corner) => ({...look, ...corner, s: `${method} ${row.t}`})));
      last = row;
    }
    const ends = [[finite[0], "circle", 60], [finite.at(-1), "diamond", 90], ...at === null ? [] : [[least(finite, ({t}) => apart(t, at)), "square", 70]]];
    marks.push(...ends.filter(([row]) => row).map(([{x, y}, shape, size]) => ({...look, x, y, shape, size})));
  }
  view.data("clouds", clouds).data("paths", lines).data("marks", marks).run();
  const spread = (noise) => noise ? text(Number(Math.sqrt(noise[0] + noise[1]).toPrecision(3))) : "outside of the chart";
  chart.readout.replaceChildren(element("b", {}, drawn.length ? `seed ${drawn[0].seed}, from ● to ◆` : "nothing to show"), ...drawn.map(({method, rows}) => {
    const row = at === null ? rows.at(-1) : least(rows, ({t}) => apart(t, at)) ?? rows.at(-1);
    return element("span", {}, swatch(method), ` ${content.methods[method].words}: noise from ${spread(rows[0].noise)} to ${spread(row.noise)}`);
  }), element("span", {}, "Ellipses: one standard deviation of a stochastic gradient, all on one scale."));
  chart.table = () => [["method", STEPS[state.x], "x₁", flat ? "f" : "x₂", "standard deviation of a gradient"], ...drawn.flatMap(({method, rows}) =>
    rows.map(({t, x, y, noise}) => [content.methods[method].words, text(t), text(x), text(y), spread(noise)]))];
}
