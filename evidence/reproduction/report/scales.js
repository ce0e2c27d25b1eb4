"use strict";
// Numbers, scales and ticks: functions of numbers alone. page.js draws with them.

// ---- numbers ----------------------------------------------------------------------------------------------------

function power(exponent) {
  return "10" + String(exponent).replace(/[-0-9]/g, (c) => "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"["0123456789-".indexOf(c)]);
}

// A number as markup.number prints it in the tables: whole ones in full below a limit, others to so many digits.
function format(value, digits = 3, whole = 1e8) {
  if (value === null) return "not finite";
  const exact = Math.abs(Number(value.toPrecision(digits)) - value) <= 1e-9 * Math.abs(value);
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  const shown = exact ? String(Number(mantissa)) : mantissa, places = Math.max(0, digits - 1 - exponent);
  const text = Number.isInteger(value) && Math.abs(value) < whole ? value.toLocaleString("en-US")
    : exponent > -4 && exponent < 6 ? Number(value.toPrecision(digits)).toLocaleString("en-US",
      { minimumFractionDigits: exact ? 0 : places, maximumFractionDigits: places })
    : shown === "1" ? power(Number(exponent)) : `${shown}×${power(Number(exponent))}`;
  return text.replace("-", "−");
}

// ---- scales and ticks -------------------------------------------------------------------------------------------

// A logarithm has no place for zero, and nothing has a place for a value that is not finite.
const drawable = (value, log) => Number.isFinite(value) && (!log || value > 0);

// So short that its ends would have the same label.
const tiny = ([low, high]) => high - low < 1e-6 * Math.max(Math.abs(low), Math.abs(high));

function scale([low, high], [start, end], log) {
  const forth = log ? Math.log10 : (v) => v;
  const back = log ? (v) => 10 ** v : (v) => v;
  const slope = (end - start) / (forth(high) - forth(low));
  const at = (value) => start + (forth(value) - forth(low)) * slope;
  return Object.assign(at, { invert: (px) => back(forth(low) + (px - start) / slope), low, high, log });
}

// The interval that shows all values, with a margin; without any value, one to draw an empty axis on.
function interval(values, log) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (!drawable(value, log)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) [low, high] = [1, 10];
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  const margin = log ? 10 ** (0.03 * (Math.log10(high) - Math.log10(low))) : 0.03 * high - 0.03 * low;
  const [first, last] = log ? [low / margin, high * margin] : [low - margin, high + margin];
  return [log ? Math.max(first, Number.MIN_VALUE) : first, Math.min(last, Number.MAX_VALUE)];
}

function evenly(low, high, count) {
  const rough = (high - low) / count;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((multiple) => multiple * unit >= rough * 0.999) * unit;
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  const digits = Math.ceil(Math.log10(Math.max(Math.abs(first), Math.abs(last), 1) + 0.5)) + 1;
  return Array.from({ length: last - first + 1 }, (_, i) => {
    const value = Number(((first + i) * step).toPrecision(12));
    return { value, label: format(value, Math.max(2, digits), 1e6) };
  });
}

// Every power of ten, or every second, third…; over fewer than three of them also 2 and 5; over less, even steps.
function decades(low, high, count) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const inside = (value) => drawable(value, true) && value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9);
  const all = (multiples) => {
    const values = [];
    for (let exponent = first; exponent <= last; exponent++)
      for (const multiple of multiples) values.push({ value: Number(`${multiple}e${exponent}`), exponent, multiple });
    return values.filter(({ value }) => inside(value));
  };
  const powers = all([1]), plain = powers.every(({ exponent }) => exponent >= -3 && exponent <= 4);
  const every = Math.max(1, Math.ceil(powers.length / count));
  const minor = every === 1 ? all([2, 3, 4, 5, 6, 7, 8, 9]) : every <= 5 ? powers : [];
  if (powers.length >= 3) {
    const named = powers.filter(({ exponent }) => exponent % every === 0);
    return [...named.map(({ value, exponent }) => ({ value, label: plain ? format(value) : power(exponent) })), ...minor];
  }
  const few = [...powers, ...all([2, 5])];
  const named = few.length >= 3 ? few.map(({ value }) => ({ value, label: format(value, 3, 1e6) })) : evenly(low, high, count);
  return [...named, ...(few.length >= 3 ? minor : [])];
}

// Ticks of an axis, without a label where it would touch one placed before.
function ticks(axis, count, extent) {
  const placed = [];
  return (axis.log ? decades : evenly)(axis.low, axis.high, count).map((tick) => {
    const middle = axis(tick.value), half = tick.label ? extent(tick.label) / 2 : 0;
    const free = tick.label && placed.every(([other, width]) => Math.abs(middle - other) > half + width);
    if (free) placed.push([middle, half]);
    return { at: middle, label: free ? tick.label : "", major: Boolean(tick.label) };
  });
}

// A line of pixels, from left to right, cut to a width: drawing dashes far outside can take a browser seconds.
function cut(line, low, high) {
  const between = ([x0, y0], [x1, y1], x) => [[x, y0 + ((y1 - y0) * (x - x0)) / (x1 - x0)]];
  return line.flatMap((place, i) => {
    const before = line[i - 1], after = line[i + 1];
    if (place[0] < low) return after && after[0] > low ? between(place, after, low) : [];
    if (place[0] > high) return before && before[0] < high ? between(before, place, high) : [];
    return [place];
  });
}
