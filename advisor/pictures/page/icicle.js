// A profile: boxes as wide as their time, each below its caller. A click shows a box alone; what is found stands out. Names are only ever text.
const data = JSON.parse(element("data").textContent), chart = element("chart"), reported = element("reported"), find = element("find");
const { start, end, own, row, kind, label, visits } = data.boxes, HELP = reported.textContent, NARROW = 1; // dots: narrower boxes are left out
let from = 0, to = data.end, found = null, chosen = -1;
const name = i => data.names[label[i]], length = ns => suiting(ns * 1e-9), bandOf = i => data.bands.findIndex(([, , until]) => start[i] < until);
function words(i) {
  const [heading, left, until] = data.bands[bandOf(i)], time = end[i] - start[i];
  return [length(time) + " (" + share(time, until - left) + " of " + heading + ")", length(own[i]) + " of its own", data.kinds[kind[i]],
    visits[i] < 0 ? "" : visits[i].toLocaleString("en") + (visits[i] === 1 ? " visit" : " visits")].filter(Boolean).join(", ");
}
function report(i) { reported.replaceChildren(isolated(name(i)), ": " + words(i)); }
function draw() {
  const scale = chart.clientWidth / (to - from), boxes = [tag("i", {})];
  boxes[0].style.top = data.rows * data.tall + "px";
  row.forEach((level, i) => {
    const left = (Math.max(start[i], from) - from) * scale, wide = (Math.min(end[i], to) - from) * scale - left;
    if (wide < NARROW) return;
    const box = tag("button", { type: "button", "data-box": i, title: name(i) + "\n" + words(i), class: found && !found[i] ? "faded" : "" },
      isolated(name(i)), "  " + length(end[i] - start[i]));
    Object.assign(box.style, { left: left + "px", width: wide + "px", top: level * data.tall + "px", background: data.palette[kind[i]] });
    boxes.push(box);
  });
  chart.replaceChildren(...boxes);
}
function show(i) { // the box alone, below its callers; without one all
  [from, to] = i == null || end[i] === start[i] ? [0, data.end] : [start[i], end[i]];
  draw();
  const box = i == null ? null : chart.querySelector('[data-box="' + i + '"]');
  if (box) box.scrollIntoView({ block: "nearest" });
  if (i == null) reported.textContent = HELP; else report(i);
  return box;
}
function search(text) {
  const wanted = text.trim().toLowerCase();
  chosen = -1; found = wanted ? label.map((_, i) => name(i).toLowerCase().includes(wanted)) : null;
  reported.textContent = !found ? HELP : found.some(Boolean) ? foundWords() + " Enter goes to the next." : "Nothing here has that in its name.";
  draw();
}
function foundWords() { // what is found within what is found counts once: boxes come before what they call
  const times = data.bands.map(() => 0);
  let reached = 0;
  found.forEach((hit, i) => { if (hit && start[i] >= reached) { times[bandOf(i)] += end[i] - start[i]; reached = end[i]; } });
  const parts = data.bands.map(([heading, left, until], at) => times[at] ? length(times[at]) + " (" + share(times[at], until - left) + ") of " + heading : "");
  return found.filter(Boolean).length.toLocaleString("en") + " of " + found.length.toLocaleString("en") + " boxes, " + parts.filter(Boolean).join(" and ") + ".";
}
const boxOf = event => event.target.closest("[data-box]"), numberOf = box => Number(box.dataset.box);
for (const each of ["pointerover", "focusin"]) chart.addEventListener(each, event => { const box = boxOf(event); if (box) report(numberOf(box)); });
chart.addEventListener("click", event => { const box = boxOf(event), now = box && show(numberOf(box)); if (now) now.focus({ preventScroll: true }); });
document.addEventListener("keydown", event => { if (event.key === "Escape") { find.value = ""; search(""); show(null); } });
find.addEventListener("input", () => search(find.value));
find.addEventListener("keydown", event => {
  if (event.key !== "Enter" || !found || !found.some(Boolean)) return;
  do chosen = (chosen + (event.shiftKey ? -1 : 1) + found.length) % found.length; while (!found[chosen]);
  show(chosen);
});
element("all").addEventListener("click", () => show(null));
element("words").append(...data.tables.map(([title, heads, rows]) => tableOf(heads, rows.map(each => each.map(isolated)), title)));
element("keys").append(...data.kinds.map((each, i) => {
  const box = tag("i");
  box.style.background = data.palette[i]; return tag("li", { title: each }, box, isolated(each));
}));
element("words").after(tag("details", { id: "diagnosis", open: true }, tag("summary", {}, "What would help"), tag("ul", {}, data.reasons.map(text => tag("li", {}, text)))));
new ResizeObserver(draw).observe(chart);
show(null);
