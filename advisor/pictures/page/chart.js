// Charts in SVG: lines with bands, points with spreads, axes with units; reply by pointer and by keys. Names are only ever text.
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
  const tried = axis.log ? axis.two ? [powers(low, high, 2, [1]), powers(low, high, 4, [1]), powers(low, high, 16, [1]), powers(low, high, 256, [1])]
    : [powers(low, high, 10, [1, 2, 5]), powers(low, high, 10, [1, 3]), powers(low, high, 10, [1]), powers(low, high, 100, [1]), powers(low, high, 1e4, [1]), steps(low, high, 6), steps(low, high, 3)]
    : [10, 8, 6, 5, 4, 3, 2, 1].map(most => steps(low, high, most));
  const good = tried.filter(list => list.length >= 2).find(fits) || tried.find(fits);
  return good || [];
}
function axisOf(given, values, from, to) {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (Number.isFinite(value) && (!given.log || value > 0)) { if (value < low) low = value; if (value > high) high = value; }
  if (!(low <= high)) { low = given.log ? 1 : 0; high = given.log ? 10 : 1; }
  if (given.least != null) low = Math.min(low, given.least);
  if (given.most != null) high = Math.max(high, given.most);
  if (given.log) { if (high / low < 1.05) { low /= 1.4; high *= 1.4; } else if (given.air) { const air = (high / low) ** 0.05; low /= air; high *= air; } }
  else if (!(high > low)) { const by = Math.abs(high) * 0.1 || 1; low -= by; high += by; }
  else if (given.air) { const by = 0.06 * (high - low); low -= by; high += by; }
  if (given.floor != null) low = Math.max(low, given.floor);
  if (given.top != null) high = Math.min(high, given.top);
  const scale = given.log ? Math.log : value => value, a = scale(low), b = scale(high);
  return { ...given, low, high, text: given.text || (value => String(Number(value.toPrecision(4)))), place: value => from + (scale(Math.max(value, given.log ? low * 1e-6 : -Infinity)) - a) / (b - a) * (to - from) };
}

// -- a chart
// spec: {title, words, x, y: {label, text, log, two, air, marks: [value]}, lines: [{label, colour, x, y, low, high, dashed, thin}],
//        points: [{label, colour, x, y, low, high, size, words}], shades: [[from, to, words]], tell: place on the x axis -> text}
const COLOURS = 4;
let clips = 0;
function chart(spec, small) {
  const plot = tag("div", { class: "plot" }), legend = tag("ul", { class: "legend" }), tip = tag("div", { class: "tip", hidden: true }), head = tag("figcaption");
  const figure = tag("figure", { class: small ? "chart small" : "chart" }, small ? null : [head, legend], plot, small ? null : tip);
  let now = spec, drawn = null, at = null, wide = 0;
  const redraw = () => {
    wide = plot.clientWidth;
    if (wide < 40) return;
    drawn = paint(now, wide, small ? 104 : Math.round(Math.max(210, Math.min(300, wide * 0.52))), small);
    plot.replaceChildren(drawn.made);
    if (at != null) point(at);
  };
  const point = x => {
    if (!drawn || !drawn.stops.length) return;
    at = x;
    const stop = drawn.stops.reduce((best, each) => Math.abs(each.x - x) < Math.abs(best.x - x) ? each : best);
    at = stop.x;
    drawn.cross.setAttribute("visibility", "visible"); drawn.cross.setAttribute("x1", stop.x); drawn.cross.setAttribute("x2", stop.x);
    tip.replaceChildren(...stop.words.map(([colour, words], i) => tag(i ? "span" : "b", { class: colour == null ? null : "c" + colour }, words)));
    tip.hidden = false;
    tip.style.left = Math.max(0, Math.min(wide - tip.offsetWidth, stop.x + (stop.x > wide / 2 ? -tip.offsetWidth - 10 : 10))) + "px";
  };
  const leave = () => { at = null; tip.hidden = true; if (drawn) drawn.cross.setAttribute("visibility", "hidden"); };
  if (!small) {
    plot.tabIndex = 0; plot.setAttribute("role", "img"); tip.setAttribute("role", "status");
    plot.addEventListener("pointermove", event => point(event.clientX - plot.getBoundingClientRect().left));
    plot.addEventListener("pointerleave", leave); plot.addEventListener("blur", leave);
    plot.addEventListener("focus", () => { if (at == null && drawn && drawn.stops.length && plot.matches(":focus-visible")) point(drawn.stops[0].x); });
    plot.addEventListener("keydown", event => {
      if (!drawn || !drawn.stops.length) return;
      if (event.key === "Escape") { leave(); return; }
      const i = drawn.stops.findIndex(stop => stop.x === at), last = drawn.stops.length - 1;
      const to = { ArrowLeft: Math.max(0, i - 1), ArrowRight: Math.min(last, i + 1), Home: 0, End: last }[event.key];
      if (to != null) { event.preventDefault(); point(drawn.stops[to].x); }
    });
  } else plot.setAttribute("aria-hidden", "true");
  figure.show = given => {
    now = given;
    if (!small) {
      head.replaceChildren(tag("b", {}, given.title), given.words ? tag("span", {}, given.words) : "");
      plot.setAttribute("aria-label", given.title + ": " + given.y.label + " over " + given.x.label + (given.words ? ". " + given.words : ""));
      const named = [...given.lines, ...(given.points || [])].filter(each => each.label);
      legend.replaceChildren(...named.map(each => tag("li", { class: "c" + each.colour + (each.dashed ? " dashed" : each.size ? " dot" : "") }, tag("bdi", {}, each.label))));
      legend.hidden = named.length < 2;
    }
    redraw();
  };
  new ResizeObserver(() => { if (plot.clientWidth !== wide) redraw(); }).observe(plot);
  figure.show(spec);
  return figure;
}
function paint(spec, width, height, small) {
  const lines = spec.lines, points = spec.points || [], ys = [], xs = [];
  for (const line of lines) { xs.push(...line.x); ys.push(...line.y.filter(y => y != null)); }
  for (const each of points) { xs.push(...each.x); ys.push(...each.y); }
  const reach = Math.max(...ys.filter(Number.isFinite)), least = Math.min(...ys.filter(Number.isFinite)); // bands count, but an outlier does not squeeze the rest
  for (const each of [...lines, ...points]) for (const bound of [each.low, each.high]) if (bound) for (const y of bound)
    if (Number.isFinite(y)) ys.push(spec.y.log ? Math.min(Math.max(y, least / 4), reach * 4) : Math.min(Math.max(y, least - (reach - least)), reach + 0.6 * Math.abs(reach - Math.min(0, least))));
  ys.push(...spec.y.marks || []);
  const top = small ? 6 : 24, bottom = height - (small ? 18 : 40);
  const y = axisOf({ air: true, ...spec.y }, ys, bottom, top), rows = ticks(y, y.low, y.high, bottom - top, false);
  const left = small ? 4 : Math.ceil(Math.max(28, ...rows.map(value => widthOf(y.text(value), 11)))) + 12, right = width - (small ? 4 : 14);
  const x = axisOf(spec.x, xs, left, right), columns = small ? [] : ticks(x, x.low, x.high, right - left, true);
  const clip = "clip" + ++clips, inside = svg("g", { "clip-path": "url(#" + clip + ")" }), made = svg("svg", { width, height, viewBox: "0 0 " + width + " " + height, "aria-hidden": "true" });
  made.append(svg("clipPath", { id: clip }, svg("rect", { x: left - 7, y: top - 4, width: Math.max(0, right - left + 14), height: bottom - top + 8 })));
  for (const [from, to, words] of spec.shades || []) {
    const a = Math.max(left, x.place(from == null ? x.low : from)), b = Math.min(right, x.place(to == null ? x.high : to));
    if (b - a < 1) continue;
    made.append(svg("rect", { class: "shade", x: a, y: top, width: b - a, height: bottom - top }));
    if (!small && b - a > widthOf(words, 10.5) + 10) made.append(svg("text", { class: "soft", x: (a + b) / 2, y: bottom - 7, "text-anchor": "middle", "font-size": 10.5 }, words));
  }
  for (const value of rows) {
    const at = y.place(value);
    if (!small) made.append(svg("text", { class: "soft", x: left - 8, y: at + 4, "text-anchor": "end" }, y.text(value)));
    made.append(svg("line", { class: value === 0 || value === rows[0] ? "axis" : "rule", x1: left, x2: right, y1: at, y2: at }));
  }
  for (const value of columns) {
    const at = x.place(value);
    made.append(svg("line", { class: "axis", x1: at, x2: at, y1: bottom, y2: bottom + 4 }), svg("text", { class: "soft", x: at, y: bottom + 17, "text-anchor": "middle" }, x.text(value)));
  }
  made.append(svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
  if (!small) made.append(svg("text", { class: "label", x: 0, y: 11 }, spec.y.label), svg("text", { class: "label", x: right, y: height - 3, "text-anchor": "end" }, spec.x.label));
  else made.append(svg("text", { class: "soft", x: left, y: height - 4 }, spec.x.ends[0]), svg("text", { class: "soft", x: right, y: height - 4, "text-anchor": "end" }, spec.x.ends[1]), svg("text", { class: "soft", x: left, y: 11 }, spec.y.label));
  for (const at of (spec.y.marks || []).map(y.place)) made.append(svg("line", { class: "mark", x1: left, x2: right, y1: at, y2: at }));
  made.append(inside);
  const path = (xs, ys, of) => { // a gap where there is nothing
    let text = "", open = false;
    xs.forEach((value, i) => { if (ys[i] == null || !Number.isFinite(ys[i]) || (of.log && ys[i] <= 0)) { open = false; return; } text += (open ? "L" : "M") + x.place(value).toFixed(1) + " " + y.place(ys[i]).toFixed(1); open = true; });
    return text;
  };
  for (const line of lines) if (line.low) {
    const back = path([...line.x].reverse(), [...line.low].reverse(), y);
    if (back) inside.append(svg("path", { class: "band c" + line.colour, d: path(line.x, line.high, y) + "L" + back.slice(1) + "Z" }));
  }
  for (const line of lines) {
    const d = path(line.x, line.y, y);
    if (!d) continue;
    inside.append(svg("path", { class: "line c" + line.colour + (line.dashed ? " dashed" : "") + (line.thin ? " thin" : ""), d }));
  }
  for (const each of points) each.x.forEach((value, i) => {
    const cx = x.place(value), cy = y.place(each.y[i]), kind = "c" + each.colour;
    if (each.low && !small && each.high[i] > each.low[i]) inside.append(svg("line", { class: "spread " + kind, x1: cx, x2: cx, y1: y.place(Math.max(each.low[i], y.log ? y.low : -Infinity)), y2: y.place(each.high[i]) }));
    inside.append(svg("circle", { class: "dot " + kind + (each.faint && each.faint[i] ? " faint" : ""), cx: cx.toFixed(1), cy: cy.toFixed(1), r: small ? 2.2 : each.size[i] }));
  });
  const cross = svg("line", { class: "cross", y1: top, y2: bottom, visibility: "hidden" });
  made.append(cross);
  return { made, cross, stops: small ? [] : stopsOf(spec, x) };
}
// Where the pointer may stop, and what is reply there.
function stopsOf(spec, x) {
  const stops = new Map(), stop = value => { const at = x.place(value); if (!stops.has(at)) stops.set(at, { x: at, words: [[null, (spec.x.tell || x.text)(value)]] }); return stops.get(at); };
  for (const line of spec.lines) if (!line.untold) line.x.forEach((value, i) => {
    if (line.y[i] == null) return;
    const band = line.low && line.low[i] != null ? " (" + spec.y.text(line.low[i]) + " to " + spec.y.text(line.high[i]) + ")" : "";
    stop(value).words.push([line.colour, (line.label ? line.label + ": " : "") + spec.y.text(line.y[i]) + band]);
  });
  for (const each of spec.points || []) each.x.forEach((value, i) => { const reply = stop(value).words; if (reply.length < 12) reply.push([each.colour, each.words[i]]); });
  return [...stops.values()].sort((a, b) => a.x - b.x);
}
