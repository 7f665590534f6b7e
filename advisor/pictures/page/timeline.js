// Bars in rows over time, on a canvas: a schedule (a row a core) or a profile (a row a level of calls), drawn from data alone.
// Wheel, keys and fingers zoom, dragging pans, what is pointed at is reported, names are found. Names are only ever text.
const data = JSON.parse(element("data").textContent);
const canvas = element("chart"), pen = canvas.getContext("2d"), reported = element("reported"), tip = element("tip"), find = element("find");
const [from, to, own, visits, readyTimes] = ["from", "to", "own", "visits", "readyTimes"].map(name => unpacked(data[name], Float64Array));
const [row, label, readyValues] = ["row", "label", "readyValues"].map(name => unpacked(data[name], Uint32Array));
const [kind, marked] = ["kind", "marked"].map(name => unpacked(data[name], Uint8Array));
const paints = data.palette.map(colour => [...channels(colour), 1]), inks = data.palette.map(inkOn), HELP = reported.textContent;
const TOP = 4, AXIS = 26, READY_LEAST = 46, READY_MOST = 150, ROW_MOST = 64, AIR = 1;
const FULL = 0.86; // of a row that is as tall as there is room for
const NARROW = 2; // dots: what is narrower is painted by shares, each dot as much in a colour as it is busy with it
const FAINT = 0.2; // of a dot at least, where anything runs in it at all
const TOUCH = 0.01; // of a dot: what only touches the chart's edge is not in it
const FADED = 0.2; // what is not found
const WHEEL = 0.0015, STEP = 0.7, LINE = 16, CLICK = 4;
const view = { from: 0, to: 1, top: 0, rows: 1 }, fingers = new Map(), strip = document.createElement("canvas");
const first = new Uint32Array(data.rows + 1); // bars come by rows, and ascend in each
for (const each of row) first[each + 1]++;
for (let each = 0; each < data.rows; each++) first[each + 1] += first[each];
const schedule = data.rowName !== ""; // or a profile
const readyMost = readyValues.reduce((most, value) => Math.max(most, value), 1);
let pointed = -1, found = null, chosen = -1, pending = 0, pressed = null;

function unpacked(text, Kind) {
  return new Kind(Uint8Array.from(atob(text || ""), letter => letter.charCodeAt(0)).buffer);
}
// The first place of an ascending array, from low on and before high, that holds more than a value.
function above(array, low, high, value) {
  while (low < high) { const mid = (low + high) >> 1; if (array[mid] <= value) low = mid + 1; else high = mid; }
  return low;
}
function channels(colour) { return [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16)); }
// Black or white, whichever stands out more from a colour (relative luminance as WCAG has it).
function inkOn(colour) {
  const [r, g, b] = channels(colour).map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.1791 ? "#000000" : "#ffffff";
}
function name(i) { return data.names.length ? data.names[label[i]] : String(label[i]); }
function moment(value) { return plain(value, data.decimals) + (data.unit ? " " + data.unit : ""); }
function length(value) { return data.seconds ? suiting(value * data.seconds) : plain(value, data.decimals); }
function words(i) {
  const band = data.bands.find(([, start, end]) => from[i] >= start && from[i] < end), time = length(to[i] - from[i]);
  return [
    band ? time + " (" + share(to[i] - from[i], band[2] - band[1]) + " of " + band[0] + ")" : time,
    schedule ? "from " + moment(from[i]) + " to " + moment(to[i]) + " on " + data.rowName + row[i] : "",
    own.length ? length(own[i]) + " of its own" : "",
    data.kinds.length > 1 ? data.kinds[kind[i]] || "" : "",
    marked[i] ? "on the critical path" : "",
    visits.length && visits[i] >= 0 ? visits[i].toLocaleString("en") + (visits[i] === 1 ? " visit" : " visits") : "",
  ].filter(Boolean).join(", ");
}

// -- what is seen
function frame() {
  const [left, right] = data.margins, room = canvas.clientHeight - 2 * TOP - (schedule ? AXIS : 0);
  const height = schedule ? Math.min(room - READY_LEAST, data.rows * ROW_MOST) : Math.min(room, data.rows * data.tall);
  return { left, top: TOP, width: canvas.clientWidth - left - right, height, ready: Math.min(READY_MOST, room - height) };
}
function redraw() { if (!pending) pending = requestAnimationFrame(paint); }
function bound(here) {
  const span = Math.min(data.end, Math.max(data.least, view.to - view.from));
  view.from = Math.max(0, Math.min(view.from, data.end - span)); view.to = view.from + span;
  view.rows = Math.min(data.rows, data.tall ? here.height / data.tall : Math.max(1, view.rows));
  view.top = Math.max(0, Math.min(view.top, data.rows - view.rows));
}
function showAll() {
  reported.textContent = HELP;
  Object.assign(view, { from: 0, to: data.end, rows: data.rows, top: data.fromBelow ? data.rows : 0 });
  bound(frame()); redraw();
}
function zoom(factor, x, y, rows) {
  const here = frame();
  if (rows) {
    const part = (y - here.top) / here.height, many = Math.min(data.rows, Math.max(1, view.rows * factor));
    view.top += part * (view.rows - many); view.rows = many;
  } else {
    const part = (x - here.left) / here.width, was = view.to - view.from, span = Math.min(data.end, Math.max(was * factor, data.least));
    view.from += part * (was - span); view.to = view.from + span;
  }
  bound(here); redraw();
}
function pan(dx, dy) {
  const here = frame(), by = dx / here.width * (view.to - view.from);
  view.from -= by; view.to -= by; view.top -= dy / here.height * view.rows;
  bound(here); redraw();
}
// Show a bar: in the middle and with air around it, or, `close`, as wide as the chart.
function bring(i, close) {
  const here = frame(), wide = to[i] - from[i], was = view.to - view.from;
  if (close) { view.from = from[i]; view.to = to[i]; }
  else if (wide < was / 100 || wide > was || from[i] < view.from || to[i] > view.to) {
    const span = Math.min(data.end, Math.max(wide * 8, Math.min(was, wide * 60), data.least));
    view.from = (from[i] + to[i] - span) / 2; view.to = view.from + span;
  }
  if (row[i] < view.top || row[i] + 1 > view.top + view.rows) view.top = row[i] - view.rows / 2;
  bound(here); redraw();
}

// -- drawing
function paint() {
  pending = 0;
  const dots = window.devicePixelRatio || 1, wide = Math.round(canvas.clientWidth * dots), tall = Math.round(canvas.clientHeight * dots);
  if (wide <= 0 || tall <= 0) return;
  if (canvas.width !== wide || canvas.height !== tall) { canvas.width = wide; canvas.height = tall; }
  pen.setTransform(dots, 0, 0, dots, 0, 0);
  pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  Object.assign(pen, { font: "11px system-ui, sans-serif", textBaseline: "middle", textAlign: "left", globalAlpha: 1 });
  const here = frame(), style = getComputedStyle(document.documentElement);
  if (here.width <= 0 || here.height <= 0) return;
  bound(here);
  const colours = Object.fromEntries(["ground", "ink", "soft", "idle", "line", "mark", "ready"].map(each => [each, style.getPropertyValue("--" + each).trim()]));
  const rowTall = here.height / view.rows, step = Math.max(1, Math.floor(0.5 / rowTall)); // where rows are more than dots, one for each dot
  const bar = data.tall ? rowTall - AIR : rowTall < 3 ? Math.max(rowTall * step, 0.5) : rowTall * FULL;
  pen.save(); pen.beginPath(); pen.rect(here.left, here.top, here.width, here.height); pen.clip();
  for (let each = Math.floor(view.top / step) * step; each < Math.min(data.rows, view.top + view.rows); each += step)
    drawRow(each, here.top + (each - view.top) * rowTall, bar, here, dots, colours);
  if (pointed >= 0) {
    const scale = here.width / (view.to - view.from), left = Math.max(here.left, here.left + (from[pointed] - view.from) * scale);
    pen.strokeStyle = colours.mark; pen.lineWidth = 2;
    pen.strokeRect(left, here.top + (row[pointed] - view.top) * rowTall, Math.max(1, Math.min(here.left + here.width, here.left + (to[pointed] - view.from) * scale) - left), bar);
  }
  pen.restore();
  drawRowNames(here, rowTall, colours);
  if (schedule) { drawAxis(here, colours); drawReady(here, dots, colours); }
}
// Bars that are narrower than dots are painted by their share of each dot, the others whole.
function drawRow(which, y, bar, here, dots, colours) {
  const scale = here.width / (view.to - view.from), width = Math.round(here.width * dots), shares = new Float32Array(4 * width), wide = [], ticks = [];
  let narrow = false;
  if (schedule) { pen.fillStyle = colours.idle; pen.fillRect(here.left, y, here.width, bar); }
  for (let i = above(to, first[which], first[which + 1], view.from); i < first[which + 1] && from[i] < view.to; i++) {
    const left = (from[i] - view.from) * scale * dots, right = (to[i] - view.from) * scale * dots;
    if (right < TOUCH || left > width - TOUCH) continue;
    if (right - left >= NARROW) { wide.push(i); continue; }
    narrow = true;
    if (found && found[i]) ticks.push(here.left + left / dots);
    for (let dot = Math.max(0, Math.floor(left)); dot <= Math.min(width - 1, right); dot++) {
      const part = (found && !found[i] ? FADED : 1) * Math.max(1e-6, Math.min(dot + 1, right) - Math.max(dot, left));
      for (let at = 0; at < 4; at++) shares[4 * dot + at] += part * paints[kind[i]][at];
    }
  }
  if (narrow) drawShares(shares, y, bar, here, width, dots);
  for (const i of wide) drawBar(i, y, bar, here, scale, colours);
  drawMarked(which, y, bar, here, scale, colours);
  pen.fillStyle = colours.mark;
  for (const x of ticks) pen.fillRect(x - 0.5, y, 1, Math.max(1, Math.min(6, bar / 2))); // what is found and too narrow to be seen
}
function drawShares(shares, y, bar, here, width, dots) {
  strip.width = width; strip.height = 1;
  const brush = strip.getContext("2d"), image = brush.createImageData(width, 1);
  for (let at = 0; at < 4 * width; at += 4) {
    const busy = shares[at + 3];
    if (!busy) continue;
    for (let part = 0; part < 3; part++) image.data[at + part] = shares[at + part] / busy;
    image.data[at + 3] = 255 * Math.min(1, found ? busy : Math.max(FAINT, busy));
  }
  brush.putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(strip, 0, 0, width, 1, here.left, y, width / dots, bar);
}
function drawBar(i, y, bar, here, scale, colours) {
  const left = Math.max(here.left, here.left + (from[i] - view.from) * scale), right = Math.min(here.left + here.width, here.left + (to[i] - view.from) * scale);
  const faded = found && !found[i], room = right - left - 8;
  pen.globalAlpha = faded ? FADED : 1;
  pen.fillStyle = data.palette[kind[i]]; pen.fillRect(left, y, right - left > 3 ? right - left - 0.6 : right - left, bar);
  pen.globalAlpha = 1;
  if (room < 12 || bar < 11) return;
  const whole = data.lengths ? name(i) + "  " + length(to[i] - from[i]) : name(i), fits = text => pen.measureText(text).width <= room;
  pen.fillStyle = faded ? colours.ink : inks[kind[i]];
  pen.fillText(fits(whole) ? whole : cut(name(i), fits, 2), left + 4, y + bar / 2);
}
// Underline what is marked: what touches is one line.
function drawMarked(which, y, bar, here, scale, colours) {
  const thick = Math.min(3, bar / 3), lines = [];
  for (let i = above(to, first[which], first[which + 1], view.from); marked.length && i < first[which + 1] && from[i] < view.to; i++) {
    if (!marked[i]) continue;
    const left = Math.max(here.left, here.left + (from[i] - view.from) * scale), right = here.left + (to[i] - view.from) * scale, last = lines.at(-1);
    if (last && left <= last[1] + 0.5) last[1] = right; else lines.push([left, right]);
  }
  for (const [left, right] of lines) {
    if (bar > 9) { pen.fillStyle = colours.ground; pen.fillRect(left, y + bar - thick - 1, Math.max(1, right - left), 1); }
    pen.fillStyle = colours.mark; pen.fillRect(left, y + bar - thick, Math.max(1, right - left), thick);
  }
}
function drawRowNames(here, tall, colours) {
  pen.fillStyle = colours.soft; pen.textAlign = "right";
  for (const each of schedule ? steps(view.top, view.top + view.rows, here.height / 14) : []) {
    const y = here.top + (each - view.top + FULL / 2) * tall;
    if (Number.isInteger(each) && each < data.rows && y < here.top + here.height) pen.fillText(data.rowName + each, here.left - 7, y);
  }
}
function drawAxis(here, colours) {
  const y = here.top + here.height, place = time => here.left + (time - view.from) / (view.to - view.from) * here.width;
  const few = steps(view.from, view.to, Math.max(2, here.width / 80)), digits = Math.max(0, 1 - Math.floor(Math.log10(few.at(-1) - few.at(-2)) + 1e-9));
  const text = time => plain(time, digits) + (data.unit ? " " + data.unit : "");
  const widest = Math.max(...few.map(time => pen.measureText(text(time)).width)) + 18;
  pen.textAlign = "center"; pen.fillStyle = colours.soft; pen.strokeStyle = colours.line; pen.lineWidth = 1;
  pen.beginPath(); pen.moveTo(here.left, y + 3.5); pen.lineTo(here.left + here.width, y + 3.5);
  for (const time of steps(view.from, view.to, Math.max(1, Math.min(here.width / 80, here.width / widest)))) {
    pen.moveTo(place(time), y + 3); pen.lineTo(place(time), y + 8);
    pen.fillText(text(time), place(time), y + 16);
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
  for (const [text, y] of [[readyMost.toLocaleString("en"), top + 5], ["ready", top + here.ready / 2], ["0", base - 5]]) pen.fillText(text, here.left - 7, y);
}

// -- pointing and finding
function place(event) { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; }
function barAt(x, y) {
  const here = frame(), scale = (view.to - view.from) / here.width, which = Math.floor(view.top + (y - here.top) / here.height * view.rows), time = view.from + (x - here.left) * scale;
  if (which < 0 || which >= data.rows || y < here.top || y >= here.top + here.height || x < here.left || x > here.left + here.width) return -1;
  const i = above(to, first[which], first[which + 1], time);
  if (i < first[which + 1] && from[i] - time <= scale) return i; // what is narrower than a dot is met near it
  return i > first[which] && time - to[i - 1] <= scale ? i - 1 : -1;
}
function report(i) {
  pointed = i;
  if (i >= 0) reported.replaceChildren(isolated(name(i)), ": " + words(i));
  redraw();
}
function point(event) {
  const i = barAt(...place(event));
  if (i !== pointed) report(i);
  tip.hidden = i < 0;
  if (i < 0) return;
  tip.replaceChildren(tag("b", {}, isolated(name(i))), words(i));
  const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 6), under = event.clientY + 18;
  tip.style.left = Math.max(6, left) + "px";
  tip.style.top = (under + tip.offsetHeight < window.innerHeight ? under : Math.max(6, event.clientY - tip.offsetHeight - 10)) + "px";
}
function search(text) {
  const wanted = text.trim().toLowerCase();
  chosen = -1; found = wanted ? Uint8Array.from(row, (_, i) => name(i).toLowerCase().includes(wanted)) : null;
  if (found) reported.textContent = found.some(Boolean) ? foundWords() + " Enter goes to the next." : "Nothing here has that in its name.";
  redraw();
}
function foundWords() { // of a profile, what is found within what is found counts once
  const which = Array.from(row.keys()).filter(i => found[i]).sort((a, b) => from[a] - from[b] || to[b] - to[a]);
  const times = (data.bands.length ? data.bands : [["", 0, 0]]).map(() => 0);
  let reached = 0;
  for (const i of which) {
    if (data.bands.length && from[i] < reached) continue;
    times[Math.max(0, data.bands.findIndex(([, , end]) => from[i] < end))] += to[i] - from[i]; reached = to[i];
  }
  const parts = times.map((time, at) => !time ? "" : data.bands.length ? length(time) + " (" + share(time, data.bands[at][2] - data.bands[at][1]) + ") of " + data.bands[at][0] : length(time));
  return which.length.toLocaleString("en") + " of " + row.length.toLocaleString("en") + " " + data.noun + ", " + parts.filter(Boolean).join(" and ") + ".";
}
function next(way, fits) {
  for (let step = 1; step <= row.length; step++) {
    const i = (((chosen < 0 && way < 0 ? 0 : chosen) + way * step) % row.length + row.length) % row.length;
    if (fits(i)) { chosen = i; tip.hidden = true; report(i); bring(i, false); return; }
  }
}
canvas.addEventListener("wheel", event => {
  event.preventDefault();
  const unit = event.deltaMode === 1 ? LINE : event.deltaMode === 2 ? canvas.clientHeight : 1;
  const [x, y] = place(event), dx = event.deltaX * unit, dy = event.deltaY * unit;
  if (event.shiftKey && data.tall) pan(0, -(dy || dx)); // browsers hand a wheel that is turned with Shift over as sideways
  else if (event.shiftKey || Math.abs(dx) <= Math.abs(dy)) zoom(Math.exp((dy || dx) * WHEEL), x, y, event.shiftKey);
  else pan(-dx, 0);
  point(event);
}, { passive: false });
canvas.addEventListener("pointerdown", event => {
  fingers.set(event.pointerId, place(event)); canvas.setPointerCapture(event.pointerId);
  pressed = fingers.size === 1 ? [event.clientX, event.clientY] : null;
  point(event);
});
canvas.addEventListener("pointermove", event => {
  const was = fingers.get(event.pointerId), now = place(event);
  if (!was) { point(event); return; }
  if (pressed && Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) > CLICK) { pressed = null; tip.hidden = true; }
  if (fingers.size === 2) {
    const other = [...fingers].find(([id]) => id !== event.pointerId)[1], apart = ([x, y]) => Math.max(12, Math.hypot(x - other[0], y - other[1]));
    zoom(apart(was) / apart(now), (was[0] + other[0]) / 2, 0, false); // first, since all that is shown can not be panned
    pan((now[0] - was[0]) / 2, (now[1] - was[1]) / 2);
  } else if (fingers.size === 1 && !pressed) pan(now[0] - was[0], now[1] - was[1]);
  else return; // not yet far enough for a drag: what was passed over counts once it is one
  fingers.set(event.pointerId, now);
});
function released(event) {
  const i = pressed && event.type === "pointerup" && fingers.size === 1 ? barAt(...place(event)) : -1;
  fingers.delete(event.pointerId); pressed = null;
  if (i >= 0) bring(i, true);
}
for (const each of ["pointerup", "pointercancel"]) canvas.addEventListener(each, released);
canvas.addEventListener("pointerleave", () => { tip.hidden = true; if (pointed >= 0) { pointed = -1; redraw(); } });
canvas.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const here = frame(), zoomed = factor => zoom(factor, here.left + here.width / 2, 0, false);
  const acts = {
    "+": () => zoomed(STEP), "=": () => zoomed(STEP), "-": () => zoomed(1 / STEP), Home: showAll, Escape: showAll, "0": showAll,
    ArrowLeft: () => pan(80, 0), ArrowRight: () => pan(-80, 0), ArrowUp: () => pan(0, 40), ArrowDown: () => pan(0, -40),
    PageUp: () => pan(0, here.height), PageDown: () => pan(0, -here.height), n: () => next(1, () => true), p: () => next(-1, () => true),
    Enter: () => { if (pointed >= 0) bring(pointed, true); },
  };
  if (Object.hasOwn(acts, event.key)) { acts[event.key](); event.preventDefault(); }
});
find.addEventListener("input", () => search(find.value));
find.addEventListener("keydown", event => {
  if (event.key === "Enter" && found) next(event.shiftKey ? -1 : 1, i => found[i]);
  if (event.key === "Escape") { find.value = ""; search(""); }
});
element("all").addEventListener("click", showAll);
element("words").append(...data.tables.map(([title, heads, rows]) => tableOf(heads, rows.map(each => each.map(isolated)), title)));
element("keys").append(...data.kinds.map((each, i) => {
  const box = tag("i");
  box.style.background = data.palette[i]; return tag("li", { title: each }, box, isolated(each));
}));
if (data.reasons.length) element("words").after(tag("details", { id: "diagnosis", open: true }, tag("summary", {}, "What would help"),
  tag("ul", {}, data.reasons.map(text => tag("li", {}, text)))));
if (data.tall) canvas.style.maxHeight = Math.max(200, data.rows * data.tall + 2 * TOP) + "px"; // no empty ground below the bars
new ResizeObserver(redraw).observe(canvas);
window.addEventListener("resize", redraw); // the dots of a pixel may change alone
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
showAll(); paint();
