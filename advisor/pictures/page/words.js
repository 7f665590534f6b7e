"use strict";
// Seconds in the unit that suits them.
function suiting(seconds) {
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]], size = Math.abs(seconds);
  const [scale, unit] = units.find(each => size >= 0.99995 * each[0]) || units[size ? 3 : 0];
  return (size < 1e4 ? String(Number((seconds / scale).toPrecision(4))) : seconds.toFixed(0)) + " " + unit;
}
// Numbers of an axis: 1, 2 or 5 times a power of ten apart.
function steps(low, high, most) {
  const raw = (high - low) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw * (1 - 1e-9));
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-12) + step * 1e-9 && out.length < 50; k++) out.push(Number((k * step).toPrecision(15)));
  return out;
}
// Nodes of a page. Names are only ever text.
const element = id => document.getElementById(id);
function tag(kind, given, ...inside) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(given || {})) if (value === true) made.setAttribute(name, ""); else if (value !== false && value != null) made.setAttribute(name, value);
  made.append(...inside.flat().filter(each => each != null && each !== false)); return made;
}
const isolated = text => tag("bdi", {}, text);
