"use strict";
// Numbers as people read them.
function plain(value, decimals) {
  const text = value.toFixed(Math.max(0, Math.min(20, decimals)));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
// Seconds in the unit that suits them.
function suiting(seconds) {
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]], size = Math.abs(seconds);
  const [scale, unit] = units.find(each => size >= 0.99995 * each[0]) || units[size ? 3 : 0];
  return (size < 1e4 ? String(Number((seconds / scale).toPrecision(4))) : seconds.toFixed(0)) + " " + unit;
}
function share(part, whole) { return whole > 0 ? (100 * part / whole).toFixed(1) + " %" : "–"; }
