// The board: one view at a time by the address's hash. A `source` answers: the service, or what the file itself holds.
const held = JSON.parse(element("data").textContent), main = element("main");
const topics = {}, CARDS = 24, FRESH_MS = 2500, PATIENT_MS = 4000, NEWS_MS = 1000, TARGET = 0.9, ADVISED = 200;

// -- words
const whole = value => Math.round(value).toLocaleString("en");
const percent = (value, digits) => value == null ? "–" : (100 * value).toFixed(digits == null ? (value < 0.0995 ? 1 : 0) : digits) + " %";
const many = (n, noun) => whole(n) + " " + noun + (n === 1 ? "" : "s"),
  number = value => value == null ? "–" : Math.abs(value) >= 1e4 && Math.abs(value) < 1e15 ? whole(value) : String(Number(value.toPrecision(4)));
const axisPercent = value => number(Number((100 * value).toPrecision(3))) + " %",
  signed = value => (value < 0 ? "−" : value > 0 ? "+" : "") + axisPercent(Math.abs(value));
const rate = value => number(value) + "/s", seconds = value => value == null ? "–" : suiting(value);
function span(value) { const s = Math.round(value); return s < 90 ? s + " s" : s < 5400 ? Math.round(s / 60) + " min" : s < 172800 ? (s / 3600).toFixed(1) + " h" : (s / 86400).toFixed(1) + " days"; }
function clock(at) { return new Date(at * 1000).toLocaleTimeString("en-GB"); }
function clockOf(at) { const made = tag("time", { datetime: new Date(at * 1000).toISOString(), title: new Date(at * 1000).toString() }, clock(at));
  return made; }
const sized = x => x.map(number).join(" × "), coresText = p => number(p) + (p === 1 ? " core" : " cores");

// -- pieces
const section = (title, more, ...inside) => tag("section", {}, tag("div", { class: "head" }, tag("h2", {}, title), more), ...inside);
const tile = (name, value, words, state) => tag("div", { class: "tile" + (state ? " " + state : "") }, tag("dt", {}, name), tag("dd", {},
  tag("b", {}, value), tag("span", {}, words || "")));
const facts = pairs => tag("dl", { class: "facts" },
  pairs.filter(([, value]) => value != null).map(([name, value]) => tag("div", {}, tag("dt", {}, name), tag("dd", {}, value))));
const chip = (text, state) => tag("span", { class: "chip" + (state ? " " + state : "") }, isolated(text));
const empty = (title, words, ...more) => tag("div", { class: "empty" }, tag("h3", {}, title), tag("p", {}, words), ...more);
const code = text => tag("pre", {}, tag("code", {}, text));
const to = (kind, name) => "#/" + kind + "/" + encodeURIComponent(name);
const table = (heads, rows, words) => tag("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": words }, tag("table", {},
  tag("thead", {}, tag("tr", {}, heads.map(text => tag("th", { scope: "col" }, text)))),
  tag("tbody", {}, rows.map(row => tag("tr", {}, row.map((cell, i) => tag(i ? "td" : "th", i ? {} : { scope: "row" }, cell)))))));
const where = () => (topics.now && topics.now.socket) || "/run/advisor/socket",
  plans = () => code("echo matmul | advisor allocate - --cores 16 --socket " + where());
const SEND = () => 'from advisor import SyncClient\n\nwith SyncClient("' + where() + '") as client:\n    client.observe("matmul", predictor=1024, cores=4, elapsed_s=0.81)\n    client.flush()';
const nothing = () => empty("No component yet", "Components appear here with their first run. Send one: its name, the size of its input, its cores and its seconds.", code(SEND()));
// New content where old was: whoever had the focus, or had opened something, keeps it.
function swap(into, ...nodes) {
  const active = into.contains(document.activeElement) ? document.activeElement : null,
    key = active && (active.id || active.getAttribute("href") || active.dataset.key);
  const open = new Set(Array.from(into.querySelectorAll("details[open]"), each => each.dataset.key));
  into.replaceChildren(...nodes.flat());
  for (const each of into.querySelectorAll("details")) if (open.has(each.dataset.key)) each.open = true;
  if (key) for (const each of into.querySelectorAll("a, button, summary, [id]")) if ([each.id, each.getAttribute("href"),
    each.dataset.key].includes(key)) { each.focus({ preventScroll: true }); break; }
}

// -- charts of what was learned
const dotSize = runs => Math.min(6, 2.6 + 0.6 * Math.log2(1 + runs));
const coresAxis = (low, high) => ({ label: "cores", log: true, two: true, text: number, tell: coresText, least: low, most: high });
const timeAxis = label => ({ label, log: true, text: seconds }), timesText = value => number(Number(value.toPrecision(3))) + " ×";
const coverageAxis = { label: "runs inside their interval [%]", text: axisPercent, marks: [TARGET], least: 0.75, most: 1, top: 1.02, floor: 0 };
const unseen = seen => [[null, seen[0], "not seen"], [seen[1], null, "not seen"]];
const of = (curves, i) => curves.length < 2 && curves[0].predictor.every(x => x === 1) ? "predicted" : "size " + sized(curves[i].predictor);
// Cells as dots: those that fit, their places and heights, and what is said of each; `spread`: a height of a time, for the deviation.
function dots(cells, colour, fits, x, y, words, spread) {
  const mine = cells.cores.map((_, i) => i).filter(fits), mean = i => cells.mean_s[i], ends = i => [mean(i) + cells.deviation_s[i], Math.max(mean(i) - cells.deviation_s[i], mean(i) / 4)];
  const bounds = spread && mine.map(i => ends(i).map(t => spread(t, i)));
  return { colour, x: mine.map(x), y: mine.map(y), size: mine.map(i => dotSize(cells.runs[i])), faint: mine.map(i => !cells.exact[i]), words: mine.map(words),
    ...(spread ? { low: bounds.map(pair => Math.min(...pair)), high: bounds.map(pair => Math.max(...pair)) } : {}) };
}
const observed = (cells, k, spread, text) => dots(cells, k, i => cells.curve[i] === k, i => cells.cores[i], i => spread(cells.mean_s[i], i),
  i => "size " + sized(cells.predictor[i]) + ": " + text(spread(cells.mean_s[i], i)) + ", " + many(cells.runs[i], "run"), spread);
function speedups(view) {
  const curves = view.curves, base = curves[0].cores[0], last = curves[0].cores.at(-1), cells = view.cells, against = coresText(base);
  const lines = curves.map((curve, i) => ({ label: of(curves, i), colour: i, x: curve.cores, y: curve.elapsed_s.map(t => curve.elapsed_s[0] / t),
    ...(i ? { thin: true } : { low: curve.high_s.map(t => curve.elapsed_s[0] / t), high: curve.low_s.map(t => curve.elapsed_s[0] / t) }) }));
  const best = Math.max(...lines.flatMap(line => line.y)), reach = Math.min(last, base * Math.max(2, 1.8 * best));
  lines.push({ label: "ideal", colour: "i", dashed: true, untold: true, x: [base, reach], y: [1, reach / base] });
  return { title: "Speedup", words: "over " + against + ", at the sizes it mostly meets; the band holds 90 % of runs, dots are what was observed",
    lines, points: cells.cores ? curves.map((_, k) => observed(cells, k, (t, i) => cells.fewest_s[i] / t, timesText)) : [], shades: unseen(view.seen),
    x: coresAxis(base, last), y: { label: "speedup over " + against + " [×]", log: true, two: true, text: timesText, least: 1, top: Math.max(2.2, 2 * best) } };
}
function small(card) { // the speedup alone, on the axes of the ideal one
  const view = { curves: [card.curve], cells: card.cells, seen: card.seen }, spec = speedups(view), { low, high } = { low: card.curve.cores[0], high: card.curve.cores.at(-1) };
  return { ...spec, lines: [{ colour: "i", dashed: true, x: [low, high], y: [1, high / low] }, spec.lines[0]], x: { ...spec.x, ends: [coresText(low), number(high)] },
    y: { ...spec.y, label: "speedup", air: false, most: high / low, top: high / low, floor: 0.7 } };
}
function times(view) {
  const curves = view.curves;
  return { title: "Time of a run", words: "over cores; the bands hold 90 % of runs, dots are means of runs alike, with their spread",
    shades: unseen(view.seen), x: coresAxis(curves[0].cores[0], curves[0].cores.at(-1)), y: timeAxis("elapsed time of one run"),
    lines: curves.map((curve, i) => ({ label: of(curves, i), colour: i, x: curve.cores, y: curve.elapsed_s, low: curve.low_s, high: curve.high_s })),
    points: view.cells.cores ? curves.map((_, k) => observed(view.cells, k, t => t, seconds)) : [] };
}
function growth(view) {
  const grown = view.growth, cells = view.cells;
  const points = dots(cells, 0, i => Math.abs(cells.cores[i] - grown.cores) < 0.02 * grown.cores && cells.predictor[i][0] > 0, i => cells.predictor[i][0], i => cells.mean_s[i],
    i => "observed: " + seconds(cells.mean_s[i]) + ", " + many(cells.runs[i], "run"), t => t);
  return { title: "Growth with the input", words: "on " + coresText(grown.cores) + ", where most runs were", shades: [],
    lines: [{ label: "predicted", colour: 0, x: grown.predictor, y: grown.elapsed_s, low: grown.low_s, high: grown.high_s }],
    points: [{ ...points, label: "observed", faint: null }], y: timeAxis("elapsed time of one run"),
    x: { label: "predictor (size of the input)", log: true, text: number, tell: x => "size " + number(x) } };
}
function residuals(view) {
  const cells = view.cells, off = i => cells.mean_s[i] / cells.elapsed_s[i] - 1, all = cells.cores.map((_, i) => i), order = [...all].sort((a, b) => cells.elapsed_s[a] - cells.elapsed_s[b]);
  const bound = times => order.map(i => times[i] / cells.elapsed_s[i] - 1), x = order.map(i => cells.elapsed_s[i]), high = bound(cells.high_s);
  const farthest = Math.max(0.05, ...all.map(i => Math.abs(off(i)))), most = Math.max(farthest, Math.min(1.1 * Math.max(...high), 4 * farthest, 1));
  return { title: "Residuals", words: "of observed means from what is predicted there now; the band holds 90 % of single runs", shades: [],
    lines: [{ colour: 0, untold: true, thin: true, x, y: x.map(() => 0), low: bound(cells.low_s), high }],
    points: [{ ...dots(cells, 0, () => true, i => cells.elapsed_s[i], off, i => signed(off(i)) + " at size " + sized(cells.predictor[i]) + ", " + coresText(cells.cores[i])), faint: null }],
    x: timeAxis("predicted time of a run"), y: { label: "observed over predicted − 1", least: -most, most, text: signed } };
}
function cardOf(card) {
  const link = tag("a", { class: "card", href: to("component", card.component) }, tag("h3", { title: card.component }, isolated(card.component)));
  if (card.curve) link.append(chart(small(card), true));
  else link.append(tag("p", { class: "soft none" }, "no run ended well yet"));
  link.append(tag("p", { class: "meta" }, tag("span", {}, many(card.runs, "run")), tag("span", {},
    card.error == null ? "not scored yet" : "off by " + percent(card.error))));
  return link;
}
// Charts that stay while their data change: a pointer on one is not lost.
function gallery(specs) { const made = tag("div", { class: specs.length === 3 ? "charts three" : "charts" });
  made.show = given => { if (made.children.length !== given.length) made.replaceChildren(...given.map(spec => chart(spec)));
  else given.forEach((spec, i) => made.children[i].show(spec)); }; made.show(specs); return made; }

// -- views: each gives {node, topics: those it redraws on, draw()}
const views = {};
views[""] = () => {
  const tiles = tag("dl", { class: "tiles" }), lines = tag("div"), cards = tag("div", { class: "cards" }), advice = tag("div"), last = tag("div"),
    due = keeper();
  let charts = null, known = [];
  const draw = async changed => {
    if (due(changed)) {
      known = (await source.components({ order: "runs", page: 0, find: "" })).cards;
      if (known.length) swap(cards, known.slice(0, 8).map(cardOf)); else swap(cards, nothing());
      swap(advice, advised((held ? held.cards.slice(0, ADVISED) : known.slice(0, 8)).filter(card => card.advice)));
    }
    if (held) swap(tiles, ...held.about.map(([name, value, words]) => tile(name, value, words)));
    else drawTiles(tiles, known);
    const specs = fates(held ? held.cards : known);
    if (!specs.length) { charts = null; swap(lines, empty("How predictions fare", "A component's runs are predicted, before they are learned, from its sixth on. Error and coverage are drawn here.")); }
    else if (!charts) swap(lines, charts = gallery(specs));
    else charts.show(specs);
    if (topics.answers) swap(last, topics.answers.choices.length ? asked(topics.answers.choices.slice(0, 3)) : [], ...topics.answers.answers.slice(0, 3).map(answerOf),
      topics.answers.answers.length + topics.answers.choices.length ? "" : noAnswers());
  };
  const all = to => tag("a", { href: to }, "all of them");
  return { node: tag("div", {}, tiles, section("How predictions fare", null, lines), section("Components", all("#/components"), cards),
    section("Advice", null, advice, held && held.left ? tag("p", { class: "soft" }, held.left) : null),
    held ? null : section("Latest answers", all("#/answers"), last)), topics: ["now", "answers"], draw };
};
function drawTiles(tiles, cards) {
  const now = topics.now;
  if (!now) return;
  const health = now.health,
    errors = cards.map(card => card.error).filter(error => error != null).sort((a, b) => a - b), middle = errors[errors.length >> 1],
    ok = health.storage !== "failed" && !health.stopping;
  swap(tiles, tile("Components", whole(now.components), "of at most " + whole(now.components_max)), tile("Runs learned",
    whole(now.counts.rows_accepted), rate(now.rows_per_s) + " in the last minute"),
    tile("Prediction error", percent(middle), errors.length ? "median component, so far" : "no run scored yet"), tile("Coverage",
      percent(now.coverage, 1), "90 % promised"),
    tile("Producers", whole(health.producers_live), "connected, " + whole(health.producers) + " known"), tile("Health", ok ? "good" : "failing",
      ok ? storageWords(health) : health.storage_failure || (health.stopping ? "stopping" : "short of memory"), ok ? "good" : "bad"));
}
const storageWords = health => health.storage === "none" ? "nothing is stored" : whole(health.commits) + " commits, " + seconds(health.commit_mean_s) + " each";
let fresh = 0;
function stale() { if (Date.now() - fresh < FRESH_MS) return false; fresh = Date.now(); return true; }
// Whether what was asked for is to be asked again: at first, with the first news, then where rows came, not too often.
function keeper() {
  let asked = null;
  return changed => {
    const rows = topics.now && topics.now.counts.rows_accepted;
    if (asked && !view.failed && (held || changed !== "now" || rows === asked.rows || (asked.rows !== undefined && !stale()))) return false;
    asked = { rows }; return true;
  };
}

let wanted = { find: "", order: "runs", page: 0 };
views.components = () => {
  const find = tag("input", { id: "find", type: "search", placeholder: "a part of a name", autocomplete: "off", spellcheck: "false",
    value: wanted.find, "aria-keyshortcuts": "/" });
  const order = tag("select", { id: "order" }, [["runs", "most runs"], ["error", "largest error"], ["name", "name"], ["newest",
    "newest"]].map(([value, words]) => tag("option", { value, selected: value === wanted.order }, words)));
  const reply = tag("p", { class: "soft", role: "status" }), cards = tag("div", { class: "cards" }), before = tag("button",
    { type: "button", id: "before" }, "← before"), after = tag("button", { type: "button", id: "after" }, "next →"), where = tag("span",
    { class: "soft" });
  const due = keeper();
  let asked = 0;
  const load = async () => {
    const mine = ++asked, found = await source.components(wanted);
    if (mine !== asked) return;
    wanted.page = found.page;
    reply.textContent = found.known === 0 ? "" : wanted.find ? whole(found.found) + " of " + many(found.known, "component") : many(found.known,
      "component");
    where.textContent = "page " + whole(found.page + 1) + " of " + whole(found.pages);
    before.disabled = found.page <= 0; after.disabled = found.page >= found.pages - 1;
    before.parentNode.hidden = found.pages < 2;
    swap(cards, found.cards.length ? found.cards.map(cardOf) : found.known ? empty("Nothing has that in its name",
      "Search looks for a part of the name, in small or capital letters.") : nothing());
    cards.dataset.page = found.page;
  };
  let waiting = 0;
  find.addEventListener("input", () => { clearTimeout(waiting);
    waiting = setTimeout(() => { wanted = { ...wanted, find: find.value, page: 0 }; load(); }, 120); });
  find.addEventListener("keydown", event => { if (event.key === "Escape") { find.value = ""; find.dispatchEvent(new Event("input"));
    } if (event.key === "Enter" && cards.querySelector("a.card")) cards.querySelector("a.card").focus(); });
  order.addEventListener("change", () => { wanted = { ...wanted, order: order.value, page: 0 }; load(); });
  const turn = by => { wanted.page += by; load().then(() => main.scrollIntoView({ block: "start" })); };
  before.addEventListener("click", () => turn(-1)); after.addEventListener("click", () => turn(1));
  const draw = changed => due(changed) ? load() : null;
  return { node: section("Components", null, tag("div", { class: "controls" }, tag("label", {}, tag("span", {}, "Find"), find), tag("label", {},
    tag("span", {}, "First"), order), reply), cards, tag("div", { class: "pager", hidden: true }, before, where, after)), topics: ["now"], draw };
};
views.component = name => {
  const inside = tag("div"), title = tag("h1", {}, isolated(name));
  const due = keeper();
  let charts = null;
  const draw = async changed => {
    if (!due(changed)) return;
    const view = await source.component(name), status = view.status || {};
    const specs = view.curves ? [speedups(view), times(view), ...(view.growth ? [growth(view)] : []),
      ...(view.cells.cores ? [residuals(view)] : [])] : [];
    const parts = [tag("div", { class: "chips" }, chip(many(view.runs, "run")), status.failed ? chip(many(status.failed, "failed run"), "bad") : null,
      status.model ? chip(status.tier === "rich" ? "learner" : status.model) : null, status.pinned ? chip("held to " + status.pinned) : null,
      status.changes ? chip(many(status.changes, "change") + " of speed", "warm") : null)];
    if (view.advice) parts.push(tag("p", { class: "advice" }, tag("b", {}, "Give it " + coresText(view.advice.cores) + ": "),
      seconds(view.advice.elapsed_s) + " a run at size " + sized(view.advice.predictor) + ", " + seconds(view.advice.low_s) + " to " + seconds(view.advice.high_s) + " in 9 of 10. ", isolated(view.advice.why + ".")));
    if (!view.curves) parts.push(empty("Nothing to draw yet",
      status.unfinished ? "Its runs have not ended." : "No run of it ended well: failed runs are counted, and not learned."));
    const rest = facts([["Error of predictions", view.error == null ? "not scored yet" : percent(view.error)], ["Inside the 90 % interval",
      view.coverage == null ? null : percent(view.coverage, 1)], ["Parallel fraction",
      status.parallel_fraction == null ? null : percent(status.parallel_fraction, 1)],
      ["Noise of a run", status.noise_relative ? percent(status.noise_relative, 1) : null], ["Cores seen",
        status.cores_range ? status.cores_range.map(number).join(" to ") : null], ["Sizes seen",
        status.predictor_range && (status.predictors || 1) === 1 ? status.predictor_range.map(number).join(" to ") : null],
      ["Outliers", status.outliers ? whole(status.outliers) : null], ["Last change",
        status.changes ? "at run " + whole(status.changed_at) : null], ["Slowdown by busy neighbours",
        status.contention && status.contention.contended ? percent(status.contention.kappa, 1) + " a core" : null], ["Also measured",
        status.measures && status.measures.length ? status.measures.join(", ") : null]]);
    const notes = [...new Set([...(status.notes || []), ...((view.curves && view.curves[0].notes) || [])])];
    if (view.curves && !view.cells.cores) notes.unshift("kept as exact sums: single runs are not remembered, there is no room for a learner (model_memory)");
    if (charts && specs.length) charts.show(specs); else charts = specs.length ? gallery(specs) : null;
    swap(inside, parts, charts || [], rest, notes.length ? tag("ul", { class: "notes" }, notes.map(note => tag("li", {}, isolated(note)))) : []);
  };
  return { node: tag("section", {}, tag("p", { class: "crumbs" }, tag("a", { href: "#/components" }, "Components")), title, inside), topics: ["now"],
    draw };
};
const noAnswers = () => empty("No answer yet", "The last hundred allocations, and the newest choices of cores, stand here with their reasons. Ask for one:", plans());
function answerOf(answer) {
  const what = answer.networks ? answer.objective + " of " + answer.networks.length + " networks" : answer.objective.replace("_",
    " ") + " of " + (answer.boxes === 1 ? "one box" : answer.boxes + " boxes");
  const got = answer.throughput_per_s == null ? "" : number(answer.throughput_per_s) + " records/s, " + seconds(answer.latency_s) + " a record";
  const more = tag("details", { "data-key": answer.id }, tag("summary", {}, "All reasons")), all = tag("div");
  more.append(all);
  more.addEventListener("toggle", async () => { // also where news took its place and opened it again
    if (!more.open || all.childElementCount) return;
    try {
      const { sentences } = await source.answer(answer.id);
      all.replaceChildren(tag("ol", { class: "why" }, sentences.map(text => tag("li", {}, isolated(text)))));
    } catch (error) { all.replaceChildren(tag("p", { class: "soft" }, error.message)); }
  });
  return tag("article", { class: "answer" }, tag("div", { class: "head" },
    tag("h3", {}, what[0].toUpperCase() + what.slice(1) + (answer.cores == null ? "" : " on " + coresText(answer.cores))), tag("span",
    { class: "soft" }, clockOf(answer.at))),
    got ? tag("p", {}, tag("b", {}, got), answer.bottleneck && answer.bottleneck.length ? tag("span", {}, " · bottleneck ",
      isolated(answer.bottleneck.join(", "))) : null) : null,
    answer.why.length ? tag("ul", { class: "why" }, answer.why.map(text => tag("li", {}, isolated(text)))) : null, more);
}
views.answers = () => {
  const inside = tag("div", { class: "stack" });
  let shown = "";
  const draw = () => {
    const answers = topics.answers;
    if (!answers || JSON.stringify(answers) === shown) return;
    shown = JSON.stringify(answers);
    swap(inside, answers.choices.length ? asked(answers.choices) : [], answers.answers.length ? answers.answers.map(answerOf) : answers.choices.length ? [] : noAnswers());
  };
  return { node: section("Recent answers", null, inside), topics: ["answers"], draw };
};
// Each component once, by how much was seen of it.
function fates(of) {
  const scored = of.filter(card => card.error != null), covered = of.filter(card => card.coverage != null),
    axis = { label: "runs learned of a component", log: true, air: true, text: number, tell: value => many(value, "run") };
  const dots = (cards, value, words) => [{ colour: 0, x: cards.map(card => Math.max(1, card.runs)), y: cards.map(value), size: cards.map(() => 4),
    words: cards.map(words) }];
  return [{ title: "Error of each component", words: "mean |time − predicted| / time, each run predicted before it was learned", lines: [],
    points: dots(scored, card => Math.max(card.error, 1e-4), card => card.component + ": " + percent(card.error)), x: axis,
    y: { label: "relative error [%]", log: true, text: axisPercent } },
    { title: "Coverage of each component", words: "share of its runs inside their 90 % interval; dashed: what is promised", lines: [], points: dots(covered,
      card => card.coverage, card => card.component + ": " + percent(card.coverage, 1)), x: axis, y: coverageAxis }].filter(spec => spec.points[0].x.length);
}
// What `choose_cores` answers: [component, size, answer, and when it was asked].
function choices(rows, words) {
  return table(["Component", "Give it", "At size", "Then a run takes", "Because"], rows.map(([name, size, choice, at]) => [
    tag("a", { href: to("component", name) }, isolated(name)), coresText(choice.cores), size,
    seconds(choice.elapsed_s) + " (" + seconds(choice.low_s) + " to " + seconds(choice.high_s) + ")",
    tag("span", {}, isolated(choice.why), at ? tag("span", { class: "soft" }, " ", clockOf(at)) : null)]), words);
}
const advised = cards => cards.length ? choices(cards.map(card => [card.component, sized(card.advice.predictor), card.advice]), "Advice")
  : empty("No advice", "Nothing was learned.");
const asked = made => choices(made.map(each => [each.component, each.asked == null ? "its usual ones" : sized([each.asked].flat()), each, each.at]), "Choices of cores");

// -- where answers come from
const service = {
  async ask(what, given) {
    const response = await fetch("page/" + what + "?" + new URLSearchParams(given), { cache: "no-store" });
    if (!response.ok) { let words = response.statusText; try { words = (await response.json()).error;
      } catch { /* no JSON: the status says it */ } throw new Error(words); }
    return response.json();
  },
  components: given => service.ask("components", given), component: name => service.ask("component", { name }), answer: id => service.ask("answer",
    { id }),
};
const file = {
  async components({ find, order, page }) {
    const text = find.trim().toLowerCase(), found = held.cards.filter(card => card.component.toLowerCase().includes(text));
    const by = { runs: (a, b) => b.runs - a.runs, error: (a, b) => (b.error ?? -1) - (a.error ?? -1), name: (a,
      b) => a.component < b.component ? -1 : 1, newest: (a, b) => b.slot - a.slot };
    found.sort(by[order]);
    const pages = Math.max(1, Math.ceil(found.length / CARDS)), at = Math.max(0, Math.min(page, pages - 1));
    return { known: held.cards.length, found: found.length, page: at, pages, cards: found.slice(at * CARDS, (at + 1) * CARDS) };
  },
  async component(name) {
    if (Object.hasOwn(held.views, name)) return held.views[name];
    const card = held.cards.find(each => each.component === name);
    if (!card) throw new Error("This file tells nothing of it.");
    return { ...card, status: { notes: ["this file has the curves of the components with most runs; of the others it has what stands here"] } };
  },
};
const source = held ? file : service, NAMES = [["", "Overview"], ["components", "Components"], ...(held ? [] : [["answers", "Answers"]])];

// -- going about
let view = null, finding = false;
async function redraw(changed) {
  const mine = view;
  try { await mine.draw(changed); if (mine === view && mine.failed) { mine.failed = false; main.replaceChildren(mine.node); }
  } catch (error) { if (mine === view) { mine.failed = true; main.replaceChildren(mine.node, empty("That could not be shown", error.message)); } }
}
function go() {
  const [kind, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  let name = rest.join("/");
  try { name = decodeURIComponent(name); } catch { /* as it stands */ }
  const known = Object.hasOwn(views, kind) && (NAMES.some(([each]) => each === kind) || kind === "component") ? kind : "";
  view = views[known](name);
  main.replaceChildren(view.node);
  for (const link of element("views").querySelectorAll("a")) if (link.dataset.view === (known === "component" ? "components" : known)) { link.setAttribute("aria-current", "page"); link.scrollIntoView({ block: "nearest", inline: "center" }); } else link.removeAttribute("aria-current");
  const heading = NAMES.find(([each]) => each === known);
  document.title = (known === "component" ? name : heading[1]) + " · " + element("views").dataset.title;
  window.scrollTo(0, 0);
  if (finding && element("find")) element("find").focus();
  finding = false;
  redraw("view");
}
element("views").dataset.title = document.title;
element("views").append(...NAMES.map(([name, words]) => tag("li", {}, tag("a", { href: "#/" + name, "data-view": name }, words))));
window.addEventListener("hashchange", () => { go(); if (document.activeElement === document.body) main.focus({ preventScroll: true }); });
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
  if (event.key !== "/") return;
  event.preventDefault();
  if (element("find")) element("find").focus(); else { finding = true; location.hash = "#/components"; }
});
// -- live
function state(words, kind) { const live = element("live"); if (live.textContent !== words) live.textContent = words; live.className = kind;
  document.documentElement.dataset.live = kind; }
let since = 0, again = 0;
async function listen() {
  clearTimeout(again);
  let news;
  try { news = await service.ask("news", { since }); }
  catch { state("the service has stopped, or has no place", "bad"); again = setTimeout(listen, PATIENT_MS); return; }
  if (document.hidden) return;
  since = news.version; state("live", "good");
  Object.assign(topics, news.topics);
  if (news.topics.now) foot();
  for (const name of Object.keys(news.topics)) if (view.topics.includes(name)) redraw(name);
  again = setTimeout(listen, NEWS_MS);
}
function foot() { element("foot").textContent = held ? held.foot : "Advisor " + topics.now.version + " · up for " + span(topics.now.uptime_s) + " · / finds a component"; }
go();
if (held) { element("live").remove(); foot(); }
else {
  state("connecting", "warm"); listen();
  document.addEventListener("visibilitychange", () => { if (document.hidden) { clearTimeout(again); state("resting", "warm");
    } else listen(); }); // a page that nobody sees takes no place
}
