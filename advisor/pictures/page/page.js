// A chart on a canvas: wheel, keys and fingers zoom, dragging pans, what is pointed at is reported, and names are found.
// `show` takes the chart: what it draws and where its items lie. Names are only ever text: of nodes, or of the canvas.
const data = JSON.parse(element("data").textContent);
const canvas = element("chart"), pen = canvas.getContext("2d"), reported = element("reported"), tip = element("tip"), find = element("find");
const HELP = reported.textContent;
const view = { from: 0, to: 1, top: 0, rows: 1 }; // times from left to right, and rows from the top down
const WHEEL = 0.0015, STEP = 0.7, LINE = 16, ROWS_SHOWN = 200, CLICK = 4;
const fingers = new Map();
let chart = null, pointed = -1, found = null, chosen = -1, pending = 0, pressed = null;

function unpacked(text, Kind) {
  const raw = atob(text), out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return new Kind(out.buffer);
}
// The first place of an ascending array, from low on and before high, that holds more than a value.
function above(array, low, high, value) {
  while (low < high) { const mid = (low + high) >> 1; if (array[mid] <= value) low = mid + 1; else high = mid; }
  return low;
}
function paints() {
  const style = getComputedStyle(document.documentElement), of = name => style.getPropertyValue("--" + name).trim();
  return { ground: of("ground"), ink: of("ink"), soft: of("soft"), idle: of("idle"), line: of("line"), mark: of("mark"), ready: of("ready") };
}
function parts(colour) { return [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16)); }
// Black or white, whichever stands out more from a colour (relative luminance as WCAG has it).
function inkOn(colour) {
  const [r, g, b] = parts(colour).map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.1791 ? "#000000" : "#ffffff";
}
const fitting = (text, room) => cut(text, some => pen.measureText(some).width <= room, 2);
function frame() { return chart.frame(canvas.clientWidth, canvas.clientHeight); }
function redraw() { if (!pending) pending = requestAnimationFrame(paint); }
function paint() {
  pending = 0;
  const dots = window.devicePixelRatio || 1, wide = Math.round(canvas.clientWidth * dots), tall = Math.round(canvas.clientHeight * dots);
  if (wide <= 0 || tall <= 0) return;
  if (canvas.width !== wide || canvas.height !== tall) { canvas.width = wide; canvas.height = tall; }
  pen.setTransform(dots, 0, 0, dots, 0, 0);
  pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  pen.font = "11px system-ui, sans-serif"; pen.textBaseline = "middle"; pen.textAlign = "left"; pen.globalAlpha = 1;
  const here = frame();
  if (here.width <= 0 || here.height <= 0) return;
  bound(here); chart.draw(here, dots, paints());
}
function bound(here) {
  const span = Math.min(chart.end, Math.max(chart.least, view.to - view.from));
  view.from = Math.max(0, Math.min(view.from, chart.end - span)); view.to = view.from + span;
  view.rows = chart.shown(here, view.rows);
  view.top = Math.max(0, Math.min(view.top, chart.rows - view.rows));
}
function showAll() {
  reported.textContent = HELP;
  view.from = 0; view.to = chart.end; view.rows = chart.rows; view.top = chart.start(frame()); redraw();
}
function zoom(factor, x, y, rows) {
  const here = frame();
  if (rows && chart.zoomsRows) {
    const part = (y - here.top) / here.height, many = Math.min(chart.rows, Math.max(1, view.rows * factor));
    view.top += part * (view.rows - many); view.rows = many;
  } else {
    const part = (x - here.left) / here.width, was = view.to - view.from, span = Math.min(chart.end, Math.max(was * factor, chart.least));
    view.from += part * (was - span); view.to = view.from + span;
  }
  bound(here); redraw();
}
function pan(dx, dy) {
  const here = frame(), by = dx / here.width * (view.to - view.from);
  view.from -= by; view.to -= by; view.top -= dy / here.height * view.rows;
  bound(here); redraw();
}
// Show an item: in the middle and with air around it, or, `close`, as wide as the chart.
function bring(item, close) {
  const [from, to, row] = chart.extent(item), here = frame(), wide = to - from, was = view.to - view.from;
  if (close) { view.from = from; view.to = to; }
  else if (wide < was / 100 || wide > was || from < view.from || to > view.to) {
    const span = Math.min(chart.end, Math.max(wide * 8, Math.min(was, wide * 60), chart.least));
    view.from = (from + to - span) / 2; view.to = view.from + span;
  }
  if (row < view.top || row + 1 > view.top + view.rows) view.top = row - view.rows / 2;
  bound(here); redraw();
}
// An address is a place on the canvas.
function place(event) { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; }
function tell(item) {
  pointed = item;
  if (item >= 0) reported.replaceChildren(isolated(chart.name(item)), ": " + chart.words(item));
  redraw();
}
function point(event) {
  const [x, y] = place(event), item = chart.at(x, y, frame());
  if (item !== pointed) tell(item);
  tip.hidden = item < 0;
  if (item < 0) return;
  tip.replaceChildren(tag("b", {}, isolated(chart.name(item))), chart.words(item));
  const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 6), under = event.clientY + 18;
  tip.style.left = Math.max(6, left) + "px";
  tip.style.top = (under + tip.offsetHeight < window.innerHeight ? under : Math.max(6, event.clientY - tip.offsetHeight - 10)) + "px";
}
function search(text) {
  const wanted = text.trim().toLowerCase();
  chosen = -1; found = null;
  if (wanted) {
    found = new Uint8Array(chart.size);
    let many = 0;
    for (let i = 0; i < chart.size; i++) if (chart.name(i).toLowerCase().includes(wanted)) { found[i] = 1; many++; }
    reported.textContent = many ? chart.foundWords(found, many) + " Enter goes to the next." : "Nothing here has that in its name.";
  }
  redraw();
}
function next(way, fits) {
  for (let step = 1; step <= chart.size; step++) {
    const item = (((chosen < 0 && way < 0 ? 0 : chosen) + way * step) % chart.size + chart.size) % chart.size;
    if (fits(item)) { chosen = item; tip.hidden = true; tell(item); bring(item, false); return; }
  }
}

canvas.addEventListener("wheel", event => {
  event.preventDefault();
  const unit = event.deltaMode === 1 ? LINE : event.deltaMode === 2 ? canvas.clientHeight : 1;
  const [x, y] = place(event), dx = event.deltaX * unit, dy = event.deltaY * unit;
  if (event.shiftKey) { // browsers hand a wheel that is turned with Shift over as sideways
    if (chart.zoomsRows) zoom(Math.exp((dy || dx) * WHEEL), x, y, true); else pan(0, -(dy || dx));
  } else if (Math.abs(dx) > Math.abs(dy)) pan(-dx, 0);
  else zoom(Math.exp(dy * WHEEL), x, y, false);
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
  const click = pressed && event.type === "pointerup" && fingers.size === 1;
  fingers.delete(event.pointerId); pressed = null;
  if (click && chart.click) { const item = chart.at(...place(event), frame()); if (item >= 0) chart.click(item); }
}
for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, released);
canvas.addEventListener("pointerleave", () => { tip.hidden = true; if (pointed >= 0) { pointed = -1; redraw(); } });
canvas.addEventListener("dblclick", event => { const item = chart.at(...place(event), frame()); if (item >= 0) bring(item, true); });
canvas.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const here = frame(), middle = here.left + here.width / 2, centre = here.top + here.height / 2;
  const acts = {
    "+": () => zoom(STEP, middle, centre, false), "=": () => zoom(STEP, middle, centre, false), "-": () => zoom(1 / STEP, middle, centre, false),
    ArrowLeft: () => pan(80, 0), ArrowRight: () => pan(-80, 0), ArrowUp: () => pan(0, 40), ArrowDown: () => pan(0, -40),
    PageUp: () => pan(0, here.height), PageDown: () => pan(0, -here.height), Home: showAll, Escape: showAll, "0": showAll,
    n: () => next(1, () => true), p: () => next(-1, () => true),
    Enter: () => { if (pointed >= 0) { if (chart.click) chart.click(pointed); else bring(pointed, true); } },
  };
  if (Object.hasOwn(acts, event.key)) { acts[event.key](); event.preventDefault(); }
});
find.addEventListener("input", () => search(find.value));
find.addEventListener("keydown", event => {
  if (event.key === "Enter" && found) next(event.shiftKey ? -1 : 1, item => found[item]);
  if (event.key === "Escape") { find.value = ""; search(""); }
});
element("all").addEventListener("click", showAll);
element("words").addEventListener("toggle", () => { if (element("words").childElementCount === 1) element("words").append(...chart.tables().map(table)); });

function table([title, heads, rows]) {
  const few = rows.slice(0, ROWS_SHOWN).map(row => row.map(isolated));
  return tableOf(heads, few, title + (rows.length > ROWS_SHOWN ? ", the first " + ROWS_SHOWN + " of " + rows.length : ""));
}
function show(made) {
  chart = made;
  element("keys").replaceChildren(...chart.keys.map(([name, colour]) => {
    const box = tag("i");
    box.style.background = colour; return tag("li", { title: name }, box, isolated(name));
  }));
  new ResizeObserver(redraw).observe(canvas);
  window.addEventListener("resize", redraw); // the dots of a pixel may change alone
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  showAll(); paint();
}
