// Who runs what when: a row a core, a bar a task; below, how many tasks were ready.
const starts = unpacked(data.starts, Float64Array), finishes = unpacked(data.finishes, Float64Array);
const who = unpacked(data.processors, Uint32Array), kind = unpacked(data.kind, Uint8Array), task = unpacked(data.task, Uint32Array);
const critical = unpacked(data.critical, Uint8Array);
const readyTimes = unpacked(data.readyTimes, Float64Array), readyValues = unpacked(data.readyValues, Uint32Array);
const LEFT = 66, RIGHT = 22, TOP = 6, AXIS = 26, READY_LEAST = 46, READY_MOST = 150, ROW_MOST = 64, FULL = 0.86;
const NARROW = 2; // dots: what is narrower is painted by shares, each dot as much in a colour as it is busy with it
const FAINT = 0.2; // of a dot at least, where anything runs in it at all
const FADED = 0.18; // what is not found
const end = data.makespan > 0 ? data.makespan : 1, first = new Uint32Array(data.cores + 1);
for (let i = 0; i < who.length; i++) first[who[i] + 1]++;
for (let p = 0; p < data.cores; p++) first[p + 1] += first[p];
let readyMost = 1;
for (const value of readyValues) if (value > readyMost) readyMost = value;
const paintOf = data.palette.map(parts), inks = data.palette.map(inkOn), strips = document.createElement("canvas");

function moment(value) { return plain(value, data.decimals) + (data.unit ? " " + data.unit : ""); }
function length(value) { return data.seconds ? suiting(value * data.seconds) : plain(value, data.decimals); }
function rowsOf(here) { // [core, top, height] of what is shown; where cores are more than dots, of one for each dot
  const tall = here.height / view.rows, step = Math.max(1, Math.floor(0.5 / tall)), out = [];
  for (let p = Math.floor(view.top / step) * step; p < Math.min(data.cores, view.top + view.rows); p += step)
    out.push([p, here.top + (p - view.top) * tall, tall < 3 ? Math.max(tall * step, 0.5) : tall * FULL]);
  return out;
}
// Paint the tasks of a core that are narrower than dots into a line of an image; whole bars go to `bars`.
function spread(p, here, dots, line, bars) {
  const scale = here.width * dots / (view.to - view.from), most = line.length / 4 - 1;
  let any = false;
  for (let i = above(finishes, first[p], first[p + 1], view.from); i < first[p + 1] && starts[i] < view.to; i++) {
    const from = (starts[i] - view.from) * scale, to = (finishes[i] - view.from) * scale;
    if (to - from >= NARROW) { bars.push(i); continue; }
    const weight = found && !found[i] ? FADED : 1, [r, g, b] = paintOf[kind[i]];
    any = true;
    for (let dot = Math.max(0, Math.floor(from)); dot <= Math.min(most, to); dot++) {
      const part = weight * Math.max(1e-6, Math.min(dot + 1, to) - Math.max(dot, from)), at = 4 * dot;
      line[at] += part * r; line[at + 1] += part * g; line[at + 2] += part * b; line[at + 3] += part;
    }
  }
  return any;
}
function drawShares(lines, here, dots, width) {
  strips.width = width; strips.height = lines.length;
  const brush = strips.getContext("2d"), image = brush.createImageData(width, lines.length);
  lines.forEach(([line], row) => {
    for (let dot = 0; dot < width; dot++) {
      const from = 4 * dot, at = 4 * (row * width + dot), busy = line[from + 3];
      if (!busy) continue;
      for (let part = 0; part < 3; part++) image.data[at + part] = line[from + part] / busy;
      image.data[at + 3] = 255 * Math.min(1, found ? busy : Math.max(FAINT, busy));
    }
  });
  brush.putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false;
  lines.forEach(([, y, bar], row) => pen.drawImage(strips, 0, row, width, 1, here.left, y, width / dots, bar));
}
function drawBar(i, y, bar, here, colours) {
  const scale = here.width / (view.to - view.from), x = here.left + (starts[i] - view.from) * scale, wide = (finishes[i] - starts[i]) * scale;
  pen.globalAlpha = found && !found[i] ? FADED : 1;
  pen.fillStyle = data.palette[kind[i]]; pen.fillRect(x, y, wide > 3 ? wide - 0.6 : wide, bar);
  const left = Math.max(x, here.left), room = Math.min(x + wide, here.left + here.width) - left - 7;
  if (room > 12 && bar > 11) {
    pen.fillStyle = pen.globalAlpha < 1 ? colours.ink : inks[kind[i]];
    pen.fillText(fitting(name(i), room), left + 4, y + bar / 2);
  }
  pen.globalAlpha = 1;
}
// Underline the critical path: what touches is one line.
function drawCritical(p, y, bar, here, colours) {
  const scale = here.width / (view.to - view.from), thick = Math.min(3, bar / 3);
  let from = -1, to = -1;
  const line = () => {
    if (to < 0) return;
    if (bar > 9) { pen.fillStyle = colours.ground; pen.fillRect(from, y + bar - thick - 1, Math.max(1, to - from), 1); }
    pen.fillStyle = colours.mark; pen.fillRect(from, y + bar - thick, Math.max(1, to - from), thick);
  };
  for (let i = above(finishes, first[p], first[p + 1], view.from); i < first[p + 1] && starts[i] < view.to; i++) {
    if (!critical[i]) continue;
    const x = Math.max(here.left, here.left + (starts[i] - view.from) * scale), until = here.left + (finishes[i] - view.from) * scale;
    if (to < 0 || x > to + 0.5) { line(); from = x; }
    to = until;
  }
  line();
}
function outline(i, here, colours, wide) {
  const [from, to, p] = extent(i), scale = here.width / (view.to - view.from), tall = here.height / view.rows;
  if (p + 1 < view.top || p > view.top + view.rows) return;
  pen.strokeStyle = colours.mark; pen.lineWidth = wide;
  pen.strokeRect(here.left + (from - view.from) * scale, here.top + (p - view.top) * tall, Math.max(1, (to - from) * scale), Math.max(1, tall * FULL));
}
function drawFound(here, dots, colours) { // what is found and too narrow to be seen has a tick of its own
  const scale = here.width / (view.to - view.from), tall = here.height / view.rows;
  pen.fillStyle = colours.mark;
  for (let i = 0; i < who.length; i++) {
    if (!found[i] || finishes[i] < view.from || starts[i] > view.to || (finishes[i] - starts[i]) * scale * dots >= NARROW) continue;
    pen.fillRect(here.left + (starts[i] - view.from) * scale - 0.5, here.top + (who[i] - view.top) * tall, 1, Math.max(1, Math.min(6, tall / 2)));
  }
}
function draw(here, dots, colours) {
  const width = Math.round(here.width * dots), lines = [], all = rowsOf(here), bars = [];
  pen.save(); pen.beginPath(); pen.rect(here.left, here.top, here.width, here.height); pen.clip();
  for (const [p, y, bar] of all) {
    const line = new Float32Array(4 * width), wide = [];
    pen.fillStyle = colours.idle; pen.fillRect(here.left, y, here.width, bar);
    if (spread(p, here, dots, line, wide)) lines.push([line, y, bar]);
    for (const i of wide) bars.push([i, y, bar]);
  }
  if (lines.length) drawShares(lines, here, dots, width);
  for (const [i, y, bar] of bars) drawBar(i, y, bar, here, colours);
  for (const [p, y, bar] of all) drawCritical(p, y, bar, here, colours);
  if (found) drawFound(here, dots, colours);
  if (pointed >= 0) outline(pointed, here, colours, 2);
  pen.restore();
  drawCores(here, colours); drawAxis(here, colours); drawReady(here, dots, colours);
}
function drawCores(here, colours) {
  const tall = here.height / view.rows, each = tidy(14 / tall, 1);
  pen.fillStyle = colours.soft; pen.textAlign = "right";
  for (let p = Math.ceil(view.top / each) * each; p < Math.min(data.cores, view.top + view.rows); p += each) {
    const y = here.top + (p - view.top + FULL / 2) * tall;
    if (y > here.top && y < here.top + here.height) pen.fillText("core " + p, here.left - 7, y);
  }
}
// The least of 1, 2, 5, 10, … times a power of ten that a value is not above.
function tidy(value, least) {
  const power = 10 ** Math.floor(Math.log10(value));
  return Math.max(least, [1, 2, 5, 10].map(m => m * power).find(s => s >= value * (1 - 1e-9)));
}
function drawAxis(here, colours) {
  const span = view.to - view.from, decimalsOf = step => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const unit = data.unit ? " " + data.unit : "";
  let step = tidy(span / Math.max(2, here.width / 80), 0);
  const widest = pen.measureText(view.to.toFixed(Math.min(20, decimalsOf(step))) + unit).width + 18;
  step = tidy(Math.max(step, span * widest / here.width), 0);
  const y = here.top + here.height, decimals = decimalsOf(step);
  pen.textAlign = "center"; pen.fillStyle = colours.soft; pen.strokeStyle = colours.line; pen.lineWidth = 1;
  pen.beginPath(); pen.moveTo(here.left, y + 3.5); pen.lineTo(here.left + here.width, y + 3.5);
  for (let k = Math.ceil(view.from / step - 1e-9); k * step <= view.to + step * 1e-6; k++) {
    const x = here.left + (k * step - view.from) / span * here.width;
    pen.moveTo(x, y + 3); pen.lineTo(x, y + 8);
    pen.fillText(plain(k * step, decimals) + unit, x, y + 16);
  }
  pen.stroke();
}
function drawReady(here, dots, colours) {
  const top = here.top + here.height + AXIS, base = top + here.ready, width = Math.round(here.width * dots), scale = width / (view.to - view.from);
  let k = Math.max(0, above(readyTimes, 0, readyTimes.length, view.from) - 1);
  pen.fillStyle = colours.idle; pen.fillRect(here.left, top, here.width, here.ready);
  pen.fillStyle = colours.ready;
  for (let dot = 0; dot < width; dot++) { // the highest value within each dot
    const until = view.from + (dot + 1) / scale;
    let high = readyValues.length ? readyValues[k] : 0;
    while (k + 1 < readyTimes.length && readyTimes[k + 1] < until) { k++; if (readyValues[k] > high) high = readyValues[k]; }
    const tall = here.ready * high / readyMost;
    if (tall) pen.fillRect(here.left + dot / dots, base - tall, 1 / dots, tall);
  }
  pen.fillStyle = colours.soft; pen.textAlign = "right";
  pen.fillText(readyMost.toLocaleString("en"), here.left - 7, top + 5);
  pen.fillText("ready", here.left - 7, top + here.ready / 2); pen.fillText("0", here.left - 7, base - 5);
}
function name(i) { return data.names.length ? data.names[i] : String(task[i]); }
function extent(i) { return [starts[i], finishes[i], who[i]]; }
function tables() {
  const kinds = [...data.kinds, "of no time"].map(each => [each, 0, 0]), cores = Array.from({ length: data.cores }, (_, p) => ["core " + p, first[p + 1] - first[p], 0]), path = [];
  let busy = 0;
  for (let i = 0; i < who.length; i++) {
    const time = finishes[i] - starts[i], row = kinds[Math.min(kind[i], kinds.length - 1)];
    row[1]++; row[2] += time; cores[who[i]][2] += time; busy += time;
    if (critical[i]) path.push(i);
  }
  path.sort((a, b) => starts[a] - starts[b] || finishes[a] - finishes[b]);
  const reply = whole => ([what, many, time]) => [what, many.toLocaleString("en"), length(time), share(time, whole)];
  return [
    ["Tasks by colour", ["colour", "tasks", "time", "of all"], kinds.filter(each => each[1]).map(reply(busy))],
    ["Cores", ["core", "tasks", "busy", "of the time"], cores.map(reply(data.makespan))],
    ["Critical path through the schedule", ["task", "core", "from", "takes"], path.map(i => [name(i), String(who[i]), moment(starts[i]), length(finishes[i] - starts[i])])],
  ];
}
show({
  end, least: Math.max(data.tick, end * 1e-12), rows: data.cores, size: who.length, zoomsRows: true, name, extent, draw, tables,
  keys: data.kinds.map((each, i) => [each, data.palette[Math.min(i, data.palette.length - 1)]]),
  frame(wide, tall) {
    const room = tall - TOP - AXIS - 8, height = Math.min(room - READY_LEAST, data.cores * ROW_MOST);
    return { left: LEFT, top: TOP, width: wide - LEFT - RIGHT, height, ready: Math.min(READY_MOST, room - height) };
  },
  shown: (_, rows) => Math.min(data.cores, Math.max(1, rows)), start: () => 0,
  at(x, y, here) {
    const scale = (view.to - view.from) / here.width, p = Math.floor(view.top + (y - here.top) / here.height * view.rows), t = view.from + (x - here.left) * scale;
    if (p < 0 || p >= data.cores || y < here.top || y >= here.top + here.height || x < here.left || x > here.left + here.width) return -1;
    const i = above(finishes, first[p], first[p + 1], t), before = i - 1;
    if (i < first[p + 1] && starts[i] <= t) return i;
    if (i < first[p + 1] && starts[i] - t <= scale) return i; // what is narrower than a dot is met near it
    return before >= first[p] && t - finishes[before] <= scale ? before : -1;
  },
  words: i => length(finishes[i] - starts[i]) + ", from " + moment(starts[i]) + " to " + moment(finishes[i]) + " on core " + who[i]
    + (data.kinds.length > 1 && kind[i] < data.kinds.length ? ", " + data.kinds[kind[i]] : "") + (critical[i] ? ", on the critical path" : ""),
  foundWords(which, many) {
    let time = 0;
    which.forEach((is, i) => { if (is) time += finishes[i] - starts[i]; });
    return many.toLocaleString("en") + " of " + who.length.toLocaleString("en") + " tasks, " + length(time) + ".";
  },
});
