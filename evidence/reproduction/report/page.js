// Draws the curves: three linked panels in every <figure data-curves>, from the JSON in #data.

// What is compared, plotted and plotted against: keys of the data and the words for them.
const { settings: SETTINGS, curves: CURVES, axes: AXES, experiments } = JSON.parse(document.getElementById("data").textContent);
const LINEAR = ["drift2"]; // what starts on a linear axis
const TOP = 8, RIGHT = 12, BOTTOM = 38; // room around a plot, in pixels; the left depends on the labels
const LETTER = 6.6; // about the width of a label's letter
const DRAG = 6, TALL = 24; // a drag shorter than this does not zoom x, or y

// ---- elements ---------------------------------------------------------------------------------------------------

function make(parent, name, attributes = {}, text = "") {
  const vector = name === "svg" || parent.namespaceURI.endsWith("svg");
  const element = vector ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  parent.append(element);
  return element;
}

function button(parent, text, pressed, action) {
  const element = make(parent, "button", { type: "button" }, text);
  element.addEventListener("click", action);
  return { element, show: () => element.setAttribute("aria-pressed", pressed()) };
}

// ---- one chart --------------------------------------------------------------------------------------------------

function chart(figure, recorded) {
  const available = Object.keys(SETTINGS).filter((setting) => recorded[setting].length);
  const names = [...new Set(available.flatMap((setting) => recorded[setting].map((arm) => arm.name)))];
  // A method looks the same in every setting, and as it does in the figures.
  const looks = new Map(available.flatMap((setting) => recorded[setting].map((arm) => [arm.name, arm.look])));
  const style = ({ name }) => {
    const [colour, dash] = looks.get(name);
    return `colour-${colour} dash-${dash}`;
  };
  const state = { setting: available[0], x: "sfo", log: true, zoom: null, hidden: new Set() };
  const arms = () => recorded[state.setting].filter((arm) => !state.hidden.has(arm.name));
  const buttons = [];

  const controls = make(figure, "div", { class: "controls" });
  function group(label, entries) {
    const box = make(controls, "div", { role: "group", "aria-label": label });
    for (const [text, pressed, action] of entries) buttons.push(button(box, text, pressed, action));
  }
  if (available.length > 1)
    group("comparison", available.map((setting) =>
      [SETTINGS[setting], () => state.setting === setting, () => { reset(); state.setting = setting; draw(); }]));
  group("horizontal axis", Object.entries(AXES).map(([x, text]) =>
    [text, () => state.x === x, () => { reset(); state.x = x; draw(); }]));
  group("horizontal scale", [["log x", () => state.log, () => { state.zoom = null; state.log = !state.log; draw(); }]]);
  const undo = make(controls, "button", { type: "button", class: "reset" }, "Reset zoom");
  undo.addEventListener("click", () => { reset(); draw(); });

  const legend = make(figure, "div", { class: "legend", role: "group", "aria-label": "methods shown" });
  for (const name of names) {
    const entry = button(legend, "", () => !state.hidden.has(name), () => {
      if (!state.hidden.delete(name)) state.hidden.add(name);
      draw();
    });
    const sample = make(entry.element, "svg", { viewBox: "0 0 34 10", width: 34, height: 10, "aria-hidden": "true" });
    make(sample, "path", { d: "M1,5H33", class: `mean ${style({ name })}` });
    make(entry.element, "span", {}, name);
    buttons.push(entry);
  }

  const row = make(figure, "div", { class: "panels" });
  const panels = Object.entries(CURVES).map(([key, title]) => build({ key, title, log: !LINEAR.includes(key), zoom: null }));
  make(figure, "figcaption", {}, "Mean over the seeds, ± one standard deviation shaded. Drag over a panel to zoom, double-click to "
    + "reset, point at it to read the nearest recorded values. With the keyboard, in a panel: ← → read, + − zoom, Esc resets.");

  function build(panel) {
    const box = make(row, "div", { class: "panel" });
    const head = make(box, "div", { class: "head" });
    make(head, "h4", {}, panel.title);
    buttons.push(button(head, "log y", () => panel.log, () => {
      Object.assign(panel, { log: !panel.log, zoom: null });
      draw();
    }));
    panel.plot = make(box, "div", { class: "plot" });
    panel.svg = make(panel.plot, "svg", { role: "img", tabindex: 0 });
    panel.readout = make(panel.plot, "div", { class: "readout", role: "status", hidden: "" });
    panel.note = make(box, "p", { class: "note" });
    listen(panel);
    return panel;
  }

  function reset() {
    state.zoom = null;
    for (const panel of panels) panel.zoom = null;
  }

  function draw() {
    for (const { show } of buttons) show();
    undo.disabled = !state.zoom && panels.every((panel) => !panel.zoom);
    const domain = state.zoom ?? interval(arms().flatMap((arm) => arm[state.x]), state.log);
    for (const panel of panels) drawPanel(panel, domain);
  }

  // The points of an arm that a panel can show, with the gaps between them: null where there is nothing to draw.
  function points(panel, arm) {
    const { mean, std } = arm[panel.key];
    return arm[state.x].map((x, i) =>
      drawable(x, state.log) && drawable(mean[i], panel.log) ? { x, y: mean[i], std: std[i] ?? 0 } : null);
  }

  function drawPanel(panel, domain) {
    const curves = arms().map((arm) => ({ arm, points: points(panel, arm) }));
    const { svg } = panel;
    svg.replaceChildren();
    svg.setAttribute("aria-label", sentence(panel, curves));
    drawAxes(panel, domain, panel.zoom ?? interval(reach(panel, curves, domain), panel.log));
    const { left, right, foot, width, height } = panel;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    // An inner svg clips what it holds; its viewBox keeps the coordinates of the outer one.
    const size = { x: left, y: TOP, width: right - left, height: foot - TOP };
    const inside = make(svg, "svg", { ...size, viewBox: Object.values(size).join(" ") });
    for (const { arm, points } of curves) drawCurve(panel, inside, arm, points);
    panel.cursor = make(inside, "g", { class: "cursor" });
    panel.box = make(inside, "rect", { class: "selection" });
    panel.readout.hidden = true;
    delete panel.stop;
    panel.note.textContent = remark(panel, curves);
  }

  // The heights a panel makes room for: those in view, or where a line passes through, those it comes from and goes to.
  function reach(panel, curves, [low, high]) {
    const seen = curves.flatMap(({ points }) => {
      const known = points.filter(Boolean), inside = known.filter((p) => p.x >= low && p.x <= high);
      const before = known.findLast((p) => p.x < low), after = known.find((p) => p.x > high);
      return inside.length || !before || !after ? inside : [before, after];
    });
    // On a log axis a band may reach down to zero: it is drawn, but makes room for itself down to half its mean only.
    return seen.flatMap((p) => [p.y + p.std, panel.log ? Math.max(p.y - p.std, p.y / 2) : p.y - p.std]);
  }

  function drawAxes(panel, domain, range) {
    const width = Math.max(200, panel.plot.clientWidth), height = Math.round(Math.min(300, Math.max(220, width * 0.72)));
    const right = width - RIGHT, foot = height - BOTTOM;
    const y = scale(range, [foot, TOP], panel.log);
    const vertical = ticks(y, (foot - TOP) / 36, () => 15);
    const left = 14 + LETTER * Math.max(2, ...vertical.map((tick) => tick.label.length));
    const x = scale(domain, [left, right], state.log);
    const horizontal = ticks(x, (right - left) / 62, (label) => LETTER * label.length + 10);
    Object.assign(panel, { x, y, left, right, foot, width, height });

    const axes = make(panel.svg, "g", { class: "axes" });
    for (const { at, label, major } of horizontal) {
      make(axes, "line", { x1: at, x2: at, y1: foot, y2: foot + (major ? 5 : 3) });
      if (!label) continue;
      make(axes, "line", { class: "grid", x1: at, x2: at, y1: TOP, y2: foot });
      make(axes, "text", { class: "x label", x: Math.min(at, width - (LETTER * label.length) / 2), y: foot + 17 }, label);
    }
    for (const { at, label, major } of vertical) {
      make(axes, "line", { x1: left - (major ? 5 : 3), x2: left, y1: at, y2: at });
      if (!label) continue;
      make(axes, "line", { class: "grid", x1: left, x2: right, y1: at, y2: at });
      make(axes, "text", { class: "y label", x: left - 8, y: at + 4 }, label);
    }
    make(axes, "path", { class: "frame", d: `M${left},${TOP}V${foot}H${right}` });
    make(axes, "text", { class: "x title", x: (left + right) / 2, y: height - 4 }, AXES[state.x]);
  }

  function drawCurve({ x, y, width }, inside, arm, points) {
    const group = make(inside, "g", { class: style(arm), "data-method": arm.name });
    const floor = y.log ? y.low / 10 : -Infinity;
    const height = (value) => Math.min(1e5, Math.max(-1e5, y(Math.max(value, floor)))); // no infinity in a path
    const path = (line) => "M" + line.map((place) => place.map((px) => px.toFixed(1))).join("L");
    for (const run of runs(points)) {
      const line = (value) => cut(run.map((p) => [x(p.x), height(value(p))]), 0, width);
      const mean = line((p) => p.y), upper = line((p) => p.y + p.std), lower = line((p) => p.y - p.std);
      if (!mean.length) continue;
      make(group, "path", { class: "band", d: path([...upper, ...lower.reverse()]) + "Z" });
      make(group, "path", { class: "mean", d: path(mean) + (mean.length > 1 ? "" : "h0") }); // h0: a dot
    }
  }

  // The stretches between gaps.
  function runs(points) {
    const found = [[]];
    for (const point of points) point ? found.at(-1).push(point) : found.push([]);
    return found.filter((run) => run.length);
  }

  function remark(panel, curves) {
    if (!curves.length) return "No method is shown.";
    const empty = curves.filter((curve) => !curve.points.some(Boolean)).map((curve) => curve.arm.name);
    const lost = curves.some(({ arm }) =>
      arm[panel.key].mean.some((v, i) => panel.log && v !== null && v <= 0 && drawable(arm[state.x][i], state.log)));
    return [empty.length && `Nothing to draw for ${empty.join("; ")}.`, lost && "Values ≤ 0 have no place on a log axis."]
      .filter(Boolean).join(" ");
  }

  function sentence(panel, curves) {
    const scales = `${panel.log ? "log" : "linear"} vertical and ${state.log ? "log" : "linear"} horizontal axis`;
    const ends = curves.map(({ arm, points }) => {
      const known = points.filter(Boolean);
      return `${arm.name} ${known.length ? `from ${format(known[0].y)} to ${format(known.at(-1).y)}` : "has nothing to draw"}`;
    });
    const what = `${panel.title} against ${AXES[state.x]}, ${SETTINGS[state.setting]}; ${scales}.`;
    return `${what} ${ends.join(", ") || "No method is shown"}.`;
  }

  // ---- reading values ----

  // All places a cursor can stop at: recorded, and inside the plot.
  function stops(panel) {
    const { low, high } = panel.x;
    const recorded = arms().flatMap((arm) => arm[state.x]).filter((v) => drawable(v, state.log) && v >= low && v <= high);
    return [...new Set(recorded)].sort((a, b) => a - b);
  }

  function nearest(values, px, axis) {
    let best = -1;
    values.forEach((value, i) => {
      if (!drawable(value, axis.log)) return;
      if (best < 0 || Math.abs(axis(value) - px) < Math.abs(axis(values[best]) - px)) best = i;
    });
    return best;
  }

  function read(panel, value) {
    panel.stop = value;
    for (const each of panels) {
      each.readout.hidden = true;
      each.cursor.replaceChildren();
      const px = each.x(value);
      make(each.cursor, "line", { x1: px, x2: px, y1: TOP, y2: each.foot });
      for (const arm of arms()) {
        const i = at(each, arm, value), point = i < 0 ? null : points(each, arm)[i];
        if (point) make(each.cursor, "circle", { cx: each.x(point.x), cy: each.y(point.y), r: 3.5, class: style(arm) });
      }
    }
    const box = panel.readout;
    box.replaceChildren();
    make(box, "strong", {}, `${AXES[state.x]}: ${format(value, 4)}`);
    const list = make(box, "dl");
    for (const arm of arms()) {
      const i = at(panel, arm, value), { mean, std } = arm[panel.key];
      const spread = std[i] ? ` ± ${format(std[i], 2)}` : "";
      const text = i < 0 ? "no run here" : mean[i] === null ? "not finite" : format(mean[i]) + spread;
      make(list, "dt", { class: style(arm) }, arm.name);
      make(list, "dd", {}, text);
    }
    box.hidden = false;
    box.classList.toggle("above", panel.plot.getBoundingClientRect().bottom + box.offsetHeight > innerHeight);
  }

  // The point of an arm recorded nearest to a place, or -1 before its start and after its end.
  function at(panel, arm, value) {
    const px = panel.x(value), i = nearest(arm[state.x], px, panel.x);
    const known = arm[state.x].filter((v) => drawable(v, state.log)).map(panel.x);
    return i < 0 || px < known[0] - 2 || px > known.at(-1) + 2 ? -1 : i;
  }

  function leave() {
    for (const panel of panels) {
      panel.cursor.replaceChildren();
      panel.readout.hidden = true;
      delete panel.stop;
    }
  }

  // ---- pointer and keyboard ----

  function listen(panel) {
    const { svg } = panel;
    let from = null;
    const place = (event) => {
      const frame = svg.getBoundingClientRect(), { left, right, foot, width, height } = panel;
      const x = (event.clientX - frame.left) * (width / frame.width), y = (event.clientY - frame.top) * (height / frame.height);
      return [Math.min(right, Math.max(left, x)), Math.min(foot, Math.max(TOP, y))];
    };
    // The drag as a box: all of a direction in which it is too short to be meant.
    const extent = (to) => {
      const wide = Math.abs(to[0] - from[0]) >= DRAG, tall = Math.abs(to[1] - from[1]) >= TALL;
      const between = (i, meant, all) => (meant ? [Math.min(from[i], to[i]), Math.max(from[i], to[i])] : all);
      return { wide, tall, x: between(0, wide, [panel.left, panel.right]), y: between(1, tall, [TOP, panel.foot]) };
    };
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      svg.setPointerCapture(event.pointerId);
      from = place(event);
      point(from);
    });
    svg.addEventListener("pointermove", (event) => {
      const to = place(event);
      point(to);
      if (!from) return;
      const { wide, tall, x, y } = extent(to);
      const shape = wide || tall ? { x: x[0], width: x[1] - x[0], y: y[0], height: y[1] - y[0] } : { width: 0, height: 0 };
      for (const [key, value] of Object.entries(shape)) panel.box.setAttribute(key, value);
    });
    svg.addEventListener("pointerup", (event) => {
      if (!from) return;
      const { wide, tall, x, y } = extent(place(event));
      from = null;
      const heights = [y[1], y[0]].map(panel.y.invert);
      if (wide) {
        zoom(x.map(panel.x.invert));
        for (const each of panels) each.zoom = null; // a new stretch, with the heights that fit it
      }
      if (tall && !tiny(heights)) panel.zoom = heights;
      if (wide || tall) draw();
    });
    svg.addEventListener("pointercancel", () => { from = null; draw(); });
    svg.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse" && !from) leave(); });
    svg.addEventListener("blur", leave);
    svg.addEventListener("dblclick", () => { reset(); draw(); });
    svg.addEventListener("keydown", (event) => {
      const act = { ArrowLeft: () => walk(-1), ArrowRight: () => walk(1), Home: () => walk(-Infinity), End: () => walk(Infinity),
        "+": () => magnify(0.5), "=": () => magnify(0.5), "-": () => magnify(2), Escape: () => { reset(); draw(); } }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });

    function point([px]) {
      const values = stops(panel);
      if (values.length) read(panel, values[nearest(values, px, panel.x)]);
    }

    // To the next stop that is visibly elsewhere.
    function walk(direction) {
      const values = stops(panel);
      if (!values.length) return;
      const from = panel.stop === undefined ? (direction < 0 ? panel.width : 0) : panel.x(panel.stop);
      const to = from + 4 * direction;
      const ahead = direction < 0 ? values.findLast((v) => panel.x(v) <= to) : values.find((v) => panel.x(v) >= to);
      read(panel, ahead ?? (direction < 0 ? values[0] : values.at(-1)));
    }

    function magnify(factor) {
      const { x, stop } = panel, ends = [panel.left, panel.right];
      const still = stop === undefined ? (ends[0] + ends[1]) / 2 : x(stop); // the place that does not move
      zoom(ends.map((px) => x.invert(still + factor * (px - still))));
      draw();
      if (stop !== undefined) read(panel, stop);
    }
  }

  // Not beyond the data.
  function zoom([low, high]) {
    const all = interval(arms().flatMap((arm) => arm[state.x]), state.log);
    const inside = [Math.max(low, all[0]), Math.min(high, all[1])];
    if (tiny(inside)) return;
    const whole = inside.every((end, i) => Math.abs(end - all[i]) <= 1e-9 * (all[1] - all[0]));
    state.zoom = whole ? null : inside;
  }

  draw();
  let width = figure.clientWidth;
  new ResizeObserver(() => {
    if (figure.clientWidth !== width) draw();
    width = figure.clientWidth;
  }).observe(figure);
}

// ---- start ------------------------------------------------------------------------------------------------------

for (const figure of document.querySelectorAll("figure[data-curves]")) chart(figure, experiments[figure.dataset.curves]);

// Paper cannot be unfolded. It has the curves, so it needs no table of them.
let unfolded = [];
window.addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("details:not([open], .alternative)")];
  for (const one of unfolded) one.open = true;
});
window.addEventListener("afterprint", () => {
  for (const one of unfolded) one.open = false;
});
