// The board: one view at a time by the address's hash. A `source` answers: the service, or what the file itself holds.
const held = JSON.parse(element("data").textContent), main = element("main");
const topics = {}, ROWS = 24, FRESH_MS = 2500, PATIENT_MS = 4000, NEWS_MS = 1000;

// -- words
const whole = value => Math.round(value).toLocaleString("en");
const percent = (value, digits) => value == null ? "–" : (100 * value).toFixed(digits == null ? (value < 0.0995 ? 1 : 0) : digits) + " %";
const many = (n, noun) => whole(n) + " " + noun + (n === 1 ? "" : "s"),
  number = value => value == null ? "–" : Math.abs(value) >= 1e4 && Math.abs(value) < 1e15 ? whole(value) : String(Number(value.toPrecision(4)));
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
const linked = name => tag("a", { href: "#/component/" + encodeURIComponent(name) }, isolated(name));
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
const coresAxis = (low, high) => ({ label: "cores", two: true, text: number, least: low, most: high });
const timeAxis = label => ({ label, text: seconds });
const unseen = seen => [[null, seen[0], "not seen"], [seen[1], null, "not seen"]];
const of = (curves, i) => curves.length < 2 && curves[0].predictor.every(x => x === 1) ? "predicted" : "size " + sized(curves[i].predictor);
// Cells as dots: those that fit, their places, their means with the deviation, and what is said of each.
function dots(cells, colour, fits, x, words) {
  const mine = cells.cores.map((_, i) => i).filter(fits), mean = i => cells.mean_s[i];
  return { colour, x: mine.map(x), y: mine.map(mean), size: mine.map(i => dotSize(cells.runs[i])), faint: mine.map(i => !cells.exact[i]),
    words: mine.map(i => words(i) + ": " + seconds(mean(i)) + ", " + many(cells.runs[i], "run")),
    low: mine.map(i => Math.max(mean(i) - cells.deviation_s[i], mean(i) / 4)), high: mine.map(i => mean(i) + cells.deviation_s[i]) };
}
function times(view) {
  const curves = view.curves;
  return { title: "Time of a run", words: "over cores; the bands hold 90 % of runs, dots are means of runs alike, with their spread",
    shades: unseen(view.seen), x: coresAxis(curves[0].cores[0], curves[0].cores.at(-1)), y: timeAxis("elapsed time of one run"),
    lines: curves.map((curve, i) => ({ label: of(curves, i), colour: i, x: curve.cores, y: curve.elapsed_s, low: curve.low_s, high: curve.high_s })),
    points: view.cells.cores ? curves.map((_, k) => dots(view.cells, k, i => view.cells.curve[i] === k, i => view.cells.cores[i], i => "size " + sized(view.cells.predictor[i]))) : [] };
}
function growth(view) {
  const grown = view.growth, cells = view.cells;
  const points = dots(cells, 0, i => Math.abs(cells.cores[i] - grown.cores) < 0.02 * grown.cores && cells.predictor[i][0] > 0, i => cells.predictor[i][0], () => "observed");
  return { title: "Growth with the input", words: "on " + coresText(grown.cores) + ", where most runs were", shades: [],
    lines: [{ label: "predicted", colour: 0, x: grown.predictor, y: grown.elapsed_s, low: grown.low_s, high: grown.high_s }],
    points: [{ ...points, label: "observed", faint: [] }], y: timeAxis("elapsed time of one run"),
    x: { label: "predictor (size of the input)", text: number } };
}
// -- views: each gives {node, topics: those it redraws on, draw()}
const views = {};
function drawTiles(tiles) {
  const now = topics.now;
  if (!now) return;
  const health = now.health, ok = health.storage !== "failed" && !health.stopping;
  swap(tiles, tile("Components", whole(now.components), "of at most " + whole(now.components_max)), tile("Runs learned",
    whole(now.counts.rows_accepted), rate(now.rows_per_s) + " in the last minute"),
    tile("Coverage", percent(now.coverage, 1), "90 % promised"),
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

let wanted = { find: "", page: 0 };
views[""] = () => {
  const find = tag("input", { id: "find", type: "search", placeholder: "a part of a name", autocomplete: "off", spellcheck: "false",
    value: wanted.find });
  const tiles = tag("dl", { class: "tiles" }), answers = tag("div", { class: "stack" });
  const reply = tag("p", { class: "soft", role: "status" }), rows = tag("div", { id: "rows" }), before = tag("button",
    { type: "button", id: "before" }, "← before"), after = tag("button", { type: "button", id: "after" }, "next →"), where = tag("span",
    { class: "soft" });
  const due = keeper();
  let loads = 0, shown = null;
  const load = async () => {
    const mine = ++loads, found = await source.components(wanted);
    if (mine !== loads) return;
    wanted.page = found.page;
    reply.textContent = found.known === 0 ? "" : wanted.find ? whole(found.found) + " of " + many(found.known, "component") : many(found.known,
      "component");
    where.textContent = "page " + whole(found.page + 1) + " of " + whole(found.pages);
    before.disabled = found.page <= 0; after.disabled = found.page >= found.pages - 1;
    before.parentNode.hidden = found.pages < 2;
    swap(rows, found.rows.length ? learned(found.rows) : found.known ? empty("Nothing has that in its name",
      "Search looks for a part of the name, in small or capital letters.") : nothing());
    rows.dataset.page = found.page;
  };
  let waiting = 0;
  find.addEventListener("input", () => { clearTimeout(waiting);
    waiting = setTimeout(() => { wanted = { ...wanted, find: find.value, page: 0 }; load(); }, 120); });
  const turn = by => { wanted.page += by; load().then(() => main.scrollIntoView({ block: "start" })); };
  before.addEventListener("click", () => turn(-1)); after.addEventListener("click", () => turn(1));
  const draw = async changed => {
    if (due(changed)) await load();
    if (held) swap(tiles, ...held.about.map(([name, value, words]) => tile(name, value, words)));
    else drawTiles(tiles);
    if (topics.answers && topics.answers !== shown) swap(answers, topics.answers.choices.length ? asked(topics.answers.choices) : [], ...topics.answers.answers.map(answerOf),
      topics.answers.answers.length + topics.answers.choices.length ? "" : noAnswers());
    shown = topics.answers;
  };
  return { node: tag("div", {}, tiles, section("Components", null, tag("div", { class: "controls" }, tag("label", {}, tag("span", {}, "Find"), find), reply), rows, tag("div", { class: "pager", hidden: true }, before, where, after),
    held && held.left ? tag("p", { class: "soft" }, held.left) : null),
    held ? null : section("Recent answers", null, answers)), topics: ["now", "answers"], draw };
};
views.component = name => {
  const inside = tag("div"), title = tag("h1", {}, isolated(name));
  const due = keeper();
  const draw = async changed => {
    if (!due(changed)) return;
    const view = await source.component(name), status = view.status || {};
    const specs = view.curves ? [times(view), ...(view.growth ? [growth(view)] : [])] : [];
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
    swap(inside, parts, tag("div", { class: "charts" }, specs.map(chart)), rest, notes.length ? tag("ul", { class: "notes" }, notes.map(note => tag("li", {}, isolated(note)))) : []);
  };
  return { node: tag("section", {}, tag("p", { class: "crumbs" }, tag("a", { href: "#/" }, "All components")), title, inside), topics: ["now"],
    draw };
};
const noAnswers = () => empty("No answer yet", "The last hundred allocations, and the newest choices of cores, stand here with their reasons. Ask for one:", plans());
function answerOf(answer) {
  const what = answer.objective.replace("_",
    " ") + " of " + (answer.boxes === 1 ? "one box" : answer.boxes + " boxes");
  const got = answer.throughput_per_s == null ? "" : number(answer.throughput_per_s) + " records/s, " + seconds(answer.latency_s) + " a record";
  const more = tag("details", { "data-key": answer.id }, tag("summary", {}, "Reasons"), tag("ol", { class: "why" }, answer.why.map(text => tag("li", {}, isolated(text)))));
  return tag("article", { class: "answer" }, tag("div", { class: "head" },
    tag("h3", {}, what[0].toUpperCase() + what.slice(1) + (answer.cores == null ? "" : " on " + coresText(answer.cores))), tag("span",
    { class: "soft" }, clockOf(answer.at))),
    got ? tag("p", {}, tag("b", {}, got), answer.bottleneck && answer.bottleneck.length ? tag("span", {}, " · bottleneck ",
      isolated(answer.bottleneck.join(", "))) : null) : null,
    more);
}
const runTime = choice => seconds(choice.elapsed_s) + " (" + seconds(choice.low_s) + " to " + seconds(choice.high_s) + ")";
const learned = rows => table(["Component", "Runs", "Off by", "In 90 % interval", "Give it", "At size", "Then a run takes", "Because"], rows.map(({ component, runs, error, coverage, advice }) => [
  linked(component), whole(runs), percent(error), percent(coverage, 1), ...(advice ? [coresText(advice.cores), sized(advice.predictor), runTime(advice), isolated(advice.why)]
    : ["–", "–", "no run ended well yet", ""])]), "Components");
const asked = made => table(["Component", "Give it", "At size", "Then a run takes", "Because"], made.map(each => [linked(each.component), coresText(each.cores),
  each.asked == null ? "its usual ones" : sized([each.asked].flat()), runTime(each), tag("span", {}, isolated(each.why), tag("span", { class: "soft" }, " ", clockOf(each.at)))]), "Choices of cores");

// -- where answers come from
const service = {
  async ask(what, given) {
    const response = await fetch("page/" + what + "?" + new URLSearchParams(given), { cache: "no-store" });
    if (!response.ok) { let words = response.statusText; try { words = (await response.json()).error;
      } catch { /* no JSON: the status says it */ } throw new Error(words); }
    return response.json();
  },
  components: given => service.ask("components", given), component: name => service.ask("component", { name }),
};
const file = {
  async components({ find, page }) {
    const text = find.trim().toLowerCase(), found = held.views.filter(view => view.component.toLowerCase().includes(text));
    const pages = Math.max(1, Math.ceil(found.length / ROWS)), at = Math.max(0, Math.min(page, pages - 1));
    return { known: held.views.length, found: found.length, page: at, pages, rows: found.slice(at * ROWS, (at + 1) * ROWS) };
  },
  async component(name) {
    const view = held.views.find(view => view.component === name);
    if (!view) throw new Error("This file tells nothing of it.");
    return view;
  },
};
const source = held ? file : service;

// -- going about
let view = null;
const title = document.title;
async function redraw(changed) {
  const mine = view;
  try { await mine.draw(changed); if (mine === view && mine.failed) { mine.failed = false; main.replaceChildren(mine.node); }
  } catch (error) { if (mine === view) { mine.failed = true; main.replaceChildren(mine.node, empty("That could not be shown", error.message)); } }
}
function go() {
  const [kind, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  let name = rest.join("/");
  try { name = decodeURIComponent(name); } catch { /* as it stands */ }
  const known = kind === "component" ? kind : "";
  view = views[known](name);
  main.replaceChildren(view.node);
  document.title = (known ? name + " · " : "") + title;
  window.scrollTo(0, 0);
  redraw("view");
}
window.addEventListener("hashchange", () => { go(); if (document.activeElement === document.body) main.focus({ preventScroll: true }); });
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
function foot() { element("foot").textContent = held ? held.foot : "Advisor " + topics.now.version + " · up for " + span(topics.now.uptime_s); }
go();
if (held) { element("live").remove(); foot(); }
else {
  state("connecting", "warm"); listen();
  document.addEventListener("visibilitychange", () => { if (document.hidden) { clearTimeout(again); state("resting", "warm");
    } else listen(); }); // a page that nobody sees takes no place
}
