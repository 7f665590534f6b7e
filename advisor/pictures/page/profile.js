// Where the time went: an icicle (or a flame graph) of call paths. A box is as wide as its inclusive time; boxes below it are
// part of it. Nodes come in preorder, so that what is below a node is a run of them.
const before = unpacked(data.before, Float64Array), inclusive = unpacked(data.inclusive, Float64Array), exclusive = unpacked(data.exclusive, Float64Array);
const depth = unpacked(data.depth, Uint32Array), kind = unpacked(data.kind, Uint8Array), label = unpacked(data.label, Uint32Array);
const visits = unpacked(data.visits, Float64Array), band = unpacked(data.band, Uint8Array), ROW = 20, SIDE = 14, LEAST = 0.5, FADED = 0.25, AIR = 1;
const TOUCH = 0.01; // of a dot: what only touches the chart's edge is not in it
const many = depth.length, after = new Uint32Array(many), parent = new Int32Array(many), open_ = [];
let levels = 1;
for (let i = 0; i < many; i++) { // `after`: the first node behind all that is below one
  while (open_.length > depth[i]) after[open_.pop()] = i;
  parent[i] = open_.length ? open_[open_.length - 1] : -1;
  open_.push(i); levels = Math.max(levels, depth[i] + 1);
}
while (open_.length) after[open_.pop()] = many;
canvas.style.maxHeight = Math.max(200, levels * ROW + 8) + "px"; // no empty ground below the boxes
const end = many && data.whole > 0 ? data.whole : 1, inks = data.palette.map(inkOn);

function rowOf(i) { return data.flame ? levels - 1 - depth[i] : depth[i]; }
function name(i) { return data.labels[label[i]]; }
function extent(i) { return [before[i], before[i] + inclusive[i], rowOf(i)]; }
function path(i) { const out = []; for (let at = i; at >= 0; at = parent[at]) out.push(name(at)); return out.reverse().join(" › "); }
function draw(here, dots, colours) {
  const scale = here.width / (view.to - view.from);
  pen.save(); pen.beginPath(); pen.rect(here.left, here.top, here.width, here.height); pen.clip();
  for (let i = 0; i < many;) {
    const from = here.left + (before[i] - view.from) * scale, wide = inclusive[i] * scale;
    if (wide < LEAST || from > here.left + here.width - TOUCH || from + wide < here.left + TOUCH) { i = after[i]; continue; }
    const y = here.top + (rowOf(i) - view.top) * ROW;
    if (y > -ROW && y < here.top + here.height) drawBox(i, from, wide, y, here, colours);
    i++;
  }
  pen.restore();
}
function drawBox(i, from, wide, y, here, colours) {
  const left = Math.max(from, here.left), right = Math.min(from + wide, here.left + here.width);
  pen.globalAlpha = found && !found[i] ? FADED : 1;
  pen.fillStyle = data.palette[kind[i]]; pen.fillRect(left, y, Math.max(LEAST, right - left - (wide > 3 ? 0.7 : 0)), ROW - AIR);
  pen.globalAlpha = 1;
  if (i === pointed) { pen.strokeStyle = colours.mark; pen.lineWidth = 2; pen.strokeRect(left + 1, y + 1, Math.max(1, right - left - 2.6), ROW - AIR - 2); }
  const room = right - left - 9;
  if (room < 14) return;
  const whole = name(i) + "  " + suiting(inclusive[i] * 1e-9);
  pen.fillStyle = found && !found[i] ? colours.ink : inks[kind[i]];
  pen.fillText(pen.measureText(whole).width <= room ? whole : fitting(name(i), room), left + 4, y + ROW / 2);
}
function words(i) {
  if (visits[i] < 0) return suiting(inclusive[i] * 1e-9) + (data.bands[band[i]][0] === "threads" ? ", p · time" : " in all");
  const top = data.bands[band[i]];
  return data.kinds[kind[i]] + ", " + suiting(inclusive[i] * 1e-9) + " (" + share(inclusive[i], top[1]) + " of " + top[0] + "), "
    + suiting(exclusive[i] * 1e-9) + " of them its own" + (visits[i] >= 0 ? ", " + visits[i].toLocaleString("en") + (visits[i] === 1 ? " visit" : " visits") : "");
}
function tables() {
  const order = Array.from({ length: many }, (_, i) => i).filter(i => visits[i] >= 0).sort((a, b) => exclusive[b] - exclusive[a]);
  return [["Call paths, most time of their own first", ["call path", "kind", "visits", "inclusive", "own", "own, of all"],
    order.map(i => [path(i), data.kinds[kind[i]], visits[i].toLocaleString("en"), suiting(inclusive[i] * 1e-9), suiting(exclusive[i] * 1e-9), share(exclusive[i], data.bands[band[i]][1])])]];
}
if (data.diagnosis.length) {
  const list = tag("ul", {}, data.diagnosis.map(text => tag("li", {}, text)));
  element("words").after(tag("details", { id: "diagnosis", open: true }, tag("summary", {}, "What would help"), list));
}
show({
  end, least: Math.min(end, 1), rows: levels, size: many, zoomsRows: false, name, extent, draw, tables, words,
  keys: data.kinds.map((each, i) => [each, data.palette[i]]),
  frame: (wide, tall) => ({ left: SIDE, top: 4, width: wide - 2 * SIDE, height: Math.max(ROW, tall - 8) }),
  shown: here => Math.min(levels, here.height / ROW), start: here => data.flame ? Math.max(0, levels - here.height / ROW) : 0,
  at(x, y, here) {
    const row = Math.floor(view.top + (y - here.top) / ROW), time = view.from + (x - here.left) / here.width * (view.to - view.from);
    if (y < here.top || y > here.top + here.height || row < 0 || row >= levels) return -1;
    for (let i = 0; i < many;) {
      if (time < before[i] || time >= before[i] + inclusive[i]) { i = after[i]; continue; }
      if (rowOf(i) === row) return i;
      i++;
    }
    return -1;
  },
  click: i => bring(i, true),
  foundWords(which, count) { // what is found within what is found counts once
    const times = data.bands.map(() => 0);
    for (let i = 0; i < many;) { if (which[i]) { times[band[i]] += inclusive[i]; i = after[i]; } else i++; }
    const parts_ = data.bands.map(([head, whole], at) => times[at] ? suiting(times[at] * 1e-9) + " (" + share(times[at], whole) + ") of " + head : "").filter(Boolean);
    return count.toLocaleString("en") + (count === 1 ? " box" : " boxes") + (parts_.length ? ", " + parts_.join(" and ") : "") + ".";
  },
});
