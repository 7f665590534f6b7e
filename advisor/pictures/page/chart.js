// Charts in SVG: lines with bands, points with spreads, axes with units, and a table of the values. Names are only ever text.
const SVG = "http://www.w3.org/2000/svg";
function svg(kind, given, ...inside) {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(given || {})) made.setAttribute(name, value);
  made.append(...inside); return made;
}
const measuring = document.createElement("canvas").getContext("2d");
function widthOf(text, size, weight) { measuring.font = (weight || 400) + " " + size + "px system-ui, sans-serif"; return measuring.measureText(text).width; }

// -- axes
function powers(low, high, base, within) {
  const out = [], log = Math.log(base);
  for (let k = Math.floor(Math.log(low) / log) - 1; k <= Math.ceil(Math.log(high) / log); k++)
    for (const m of within) { const value = m * base ** k; if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) out.push(Number(value.toPrecision(12))); }
  return out;
}
function ticks(axis, low, high, room, across) {
  const fits = list => {
    if (!list.length) return false;
    if (!across) return list.length <= Math.max(2, room / 26);
    const wide = list.map(value => widthOf(axis.text(value), 11) + 14), at = list.map(axis.place);
    return at.every((x, i) => !i || x - at[i - 1] >= (wide[i] + wide[i - 1]) / 2);
  };
  const tried = axis.two ? [powers(low, high, 2, [1]), powers(low, high, 4, [1]), powers(low, high, 16, [1]), powers(low, high, 256, [1])]
    : [powers(low, high, 10, [1, 2, 5]), powers(low, high, 10, [1, 3]), powers(low, high, 10, [1]), powers(low, high, 100, [1]), powers(low, high, 1e4, [1]), steps(low, high, 6), steps(low, high, 3)];
  const good = tried.filter(list => list.length >= 2).find(fits) || tried.find(fits);
  return good || [];
}
function axisOf(given, values, from, to) {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (Number.isFinite(value) && value > 0) { if (value < low) low = value; if (value > high) high = value; }
  if (!(low <= high)) { low = 1; high = 10; }
  if (given.least != null) low = Math.min(low, given.least);
  if (given.most != null) high = Math.max(high, given.most);
  if (high / low < 1.05) { low /= 1.4; high *= 1.4; } else if (given.air) { const air = (high / low) ** 0.05; low /= air; high *= air; }
  const a = Math.log(low), b = Math.log(high);
  return { ...given, low, high, place: value => from + (Math.log(Math.max(value, low * 1e-6)) - a) / (b - a) * (to - from) };
}

// -- a chart
// spec: {title, words, x, y (both in logarithms): {label, text, least, most, two, air}, lines: [{label, colour, x, y, low, high}],
//        points: [{label, colour, x, y, low, high, size, words}], shades: [[from, to, words]]}
let clips = 0;
function chart(spec) {
  const plot = tag("div", { class: "plot", role: "img", "aria-label": spec.title + ": " + spec.y.label + " over " + spec.x.label + ". " + spec.words });
  const named = [...spec.lines, ...spec.points].filter(each => each.label);
  const legend = tag("ul", { class: "legend", hidden: named.length < 2 },
    named.map(each => tag("li", { class: "c" + each.colour + (each.size ? " dot" : "") }, tag("bdi", {}, each.label))));
  const values = tag("details", { "data-key": spec.title }, tag("summary", {}, "Values"), table([spec.x.label, ...spec.lines.map(line => line.label)],
    spec.lines[0].x.map((x, i) => [spec.x.text(x), ...spec.lines.map(line => spec.y.text(line.y[i]) + " (" + spec.y.text(line.low[i]) + " to " + spec.y.text(line.high[i]) + ")")]), spec.title));
  new ResizeObserver(() => plot.replaceChildren(paint(spec, plot.clientWidth, Math.round(Math.max(210, Math.min(300, plot.clientWidth * 0.52)))))).observe(plot);
  return tag("figure", { class: "chart" }, tag("figcaption", {}, tag("b", {}, spec.title), tag("span", {}, spec.words)), legend, plot, values);
}
function paint(spec, width, height) {
  const lines = spec.lines, points = spec.points, ys = [], xs = [];
  for (const line of lines) { xs.push(...line.x); ys.push(...line.y); }
  for (const each of points) { xs.push(...each.x); ys.push(...each.y); }
  const reach = Math.max(...ys.filter(Number.isFinite)), least = Math.min(...ys.filter(Number.isFinite)); // bands count, but an outlier does not squeeze the rest
  for (const each of [...lines, ...points]) for (const bound of [each.low, each.high]) for (const y of bound)
    if (Number.isFinite(y)) ys.push(Math.min(Math.max(y, least / 4), reach * 4));
  const top = 24, bottom = height - 40;
  const y = axisOf({ air: true, ...spec.y }, ys, bottom, top), rows = ticks(y, y.low, y.high, bottom - top, false);
  const left = Math.ceil(Math.max(28, ...rows.map(value => widthOf(y.text(value), 11)))) + 12, right = width - 14;
  const x = axisOf(spec.x, xs, left, right), columns = ticks(x, x.low, x.high, right - left, true);
  const clip = "clip" + ++clips, inside = svg("g", { "clip-path": "url(#" + clip + ")" }), made = svg("svg", { width, height, viewBox: "0 0 " + width + " " + height, "aria-hidden": "true" });
  made.append(svg("clipPath", { id: clip }, svg("rect", { x: left - 7, y: top - 4, width: Math.max(0, right - left + 14), height: bottom - top + 8 })));
  for (const [from, to, words] of spec.shades) {
    const a = Math.max(left, x.place(from == null ? x.low : from)), b = Math.min(right, x.place(to == null ? x.high : to));
    if (b - a < 1) continue;
    made.append(svg("rect", { class: "shade", x: a, y: top, width: b - a, height: bottom - top }));
    if (b - a > widthOf(words, 10.5) + 10) made.append(svg("text", { class: "soft", x: (a + b) / 2, y: bottom - 7, "text-anchor": "middle", "font-size": 10.5 }, words));
  }
  for (const value of rows) {
    const at = y.place(value);
    made.append(svg("text", { class: "soft", x: left - 8, y: at + 4, "text-anchor": "end" }, y.text(value)));
    made.append(svg("line", { class: value === rows[0] ? "axis" : "rule", x1: left, x2: right, y1: at, y2: at }));
  }
  for (const value of columns) {
    const at = x.place(value);
    made.append(svg("line", { class: "axis", x1: at, x2: at, y1: bottom, y2: bottom + 4 }), svg("text", { class: "soft", x: at, y: bottom + 17, "text-anchor": "middle" }, x.text(value)));
  }
  made.append(svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
  made.append(svg("text", { class: "label", x: 0, y: 11 }, spec.y.label), svg("text", { class: "label", x: right, y: height - 3, "text-anchor": "end" }, spec.x.label));
  made.append(inside);
  const path = (xs, ys) => "M" + xs.map((value, i) => x.place(value).toFixed(1) + " " + y.place(ys[i]).toFixed(1)).join("L");
  for (const line of lines)
    inside.append(svg("path", { class: "band c" + line.colour, d: path(line.x, line.high) + "L" + path([...line.x].reverse(), [...line.low].reverse()).slice(1) + "Z" }));
  for (const line of lines) inside.append(svg("path", { class: "line c" + line.colour, d: path(line.x, line.y) }));
  for (const each of points) each.x.forEach((value, i) => {
    const cx = x.place(value), cy = y.place(each.y[i]), kind = "c" + each.colour;
    if (each.high[i] > each.low[i]) inside.append(svg("line", { class: "spread " + kind, x1: cx, x2: cx, y1: y.place(Math.max(each.low[i], y.low)), y2: y.place(each.high[i]) }));
    inside.append(svg("circle", { class: "dot " + kind + (each.faint[i] ? " faint" : ""), cx: cx.toFixed(1), cy: cy.toFixed(1), r: each.size[i] },
      svg("title", {}, each.words[i])));
  });
  return made;
}
