// A network as composed: series from left to right, branches one above the other, frames around what repeats or returns.
const BOX_WIDE = 148, BOX_TALL = 66, BARE_TALL = 34, GAP = 26, BRANCH_GAP = 14, FORK = 30, FRAME = 14, FRAME_HEAD = 22, PILL_TALL = 26;
function drawNetwork(tree, words) {
  const laid = lay(tree), margin = 22, wide = Math.ceil(laid.wide + 2 * margin), tall = Math.ceil(laid.tall + 16), middle = 8 + laid.middle;
  const made = svg("svg", { width: wide, height: tall, viewBox: "0 0 " + wide + " " + tall, role: "img", "aria-label": words });
  made.append(wire(2, middle, margin, middle, false));
  laid.draw(made, margin, 8);
  made.append(wire(margin + laid.wide, middle, wide - 3, middle, true));
  return made;
}
function wire(x1, y1, x2, y2, arrow) {
  const bend = Math.abs(y2 - y1) < 1 ? "L" + x2 + " " + y2 : "C" + (x1 + x2) / 2 + " " + y1 + " " + (x1 + x2) / 2 + " " + y2 + " " + x2 + " " + y2;
  const group = svg("g", { class: "wire" }, svg("path", { d: "M" + x1 + " " + y1 + bend }));
  if (arrow) group.append(svg("path", { class: "head", d: "M" + (x2 - 6) + " " + (y2 - 4) + "L" + x2 + " " + y2 + "L" + (x2 - 6) + " " + (y2 + 4) + "Z" }));
  return group;
}
// {wide, tall, middle: where records come in and go out, draw(into, x, y)}
function lay(part) {
  if (part.kind === "box") return { wide: BOX_WIDE, tall: tallOf(part), middle: tallOf(part) / 2, draw: (into, x, y) => into.append(boxOf(part, x, y)) };
  if (!part.children || !part.children.length) return pill(part);
  const inner = part.children.map(lay);
  if (part.kind === "series") return inRow(inner);
  if (part.kind === "choice" || part.kind === "join") return inColumn(inner, part);
  return framed(inner[0], part);
}
function pill(part) {
  const text = part.kind === "more" ? "… " + part.boxes.toLocaleString("en") + " more boxes" : shortened(part.label || part.kind, 190, 11.5), wide = Math.max(40, widthOf(text, 11.5) + 24);
  return { wide, tall: PILL_TALL, middle: PILL_TALL / 2, draw: (into, x, y) => into.append(svg("g", { class: "pill" }, svg("title", {}, part.label || text), svg("rect", { x, y, width: wide, height: PILL_TALL, rx: PILL_TALL / 2 }),
    svg("text", { x: x + wide / 2, y: y + PILL_TALL / 2 + 4, "text-anchor": "middle", "font-size": 11.5 }, text))) };
}
function inRow(inner) {
  const middle = Math.max(...inner.map(each => each.middle)), below = Math.max(...inner.map(each => each.tall - each.middle));
  return { wide: inner.reduce((sum, each) => sum + each.wide, 0) + GAP * (inner.length - 1), tall: middle + below, middle, draw: (into, x, y) => inner.forEach((each, i) => {
    if (i) { into.append(wire(x, y + middle, x + GAP, y + middle, true)); x += GAP; }
    each.draw(into, x, y + middle - each.middle); x += each.wide;
  }) };
}
function inColumn(inner, part) {
  const head = part.shares ? 16 : 0, wide = Math.max(...inner.map(each => each.wide)), tall = inner.reduce((sum, each) => sum + each.tall + head, 0) + BRANCH_GAP * (inner.length - 1), middle = tall / 2;
  return { wide: wide + 2 * FORK, tall, middle, draw: (into, x, y) => {
    let top = y;
    inner.forEach((each, i) => {
      const at = top + head + each.middle, from = x + FORK + (wide - each.wide) / 2;
      into.append(wire(x, y + middle, x + FORK, at, false), svg("g", { class: "wire" }, svg("path", { d: "M" + (x + FORK) + " " + at + "H" + from })),
        svg("g", { class: "wire" }, svg("path", { d: "M" + (from + each.wide) + " " + at + "H" + (x + FORK + wide) })), wire(x + FORK + wide, at, x + 2 * FORK + wide, y + middle, false));
      if (part.shares && part.shares[i] != null) into.append(svg("text", { class: "soft", x: from, y: top + 11, "font-size": 11 }, (100 * part.shares[i]).toFixed(part.shares[i] < 0.1 ? 1 : 0) + " % of records"));
      each.draw(into, from, top + head); top += head + each.tall + BRANCH_GAP;
    });
    const knot = (at, title) => svg("circle", { class: part.kind === "join" ? "knot join" : "knot", cx: at, cy: y + middle, r: 4.5 }, svg("title", {}, title));
    into.append(knot(x + 4, part.kind === "join" ? "each record goes to all branches" : "each record goes to one branch"), knot(x + 2 * FORK + wide - 4, part.kind === "join" ? "on when all are done" : "together again"));
  } };
}
function framed(inner, part) {
  const label = part.label || part.kind, wide = Math.max(inner.wide + 2 * FRAME, Math.min(widthOf(label, 11.5), 160) + 2 * FRAME), from = (wide - inner.wide) / 2;
  return { wide, tall: inner.tall + FRAME_HEAD + FRAME, middle: FRAME_HEAD + inner.middle, draw: (into, x, y) => {
    into.append(svg("g", { class: "frame" }, svg("title", {}, label), svg("rect", { x, y, width: wide, height: inner.tall + FRAME_HEAD + FRAME, rx: 10 }), svg("text", { x: x + FRAME, y: y + 15, "font-size": 11.5 }, shortened(label, wide - 2 * FRAME, 11.5))));
    into.append(wire(x, y + FRAME_HEAD + inner.middle, x + from, y + FRAME_HEAD + inner.middle, false), wire(x + from + inner.wide, y + FRAME_HEAD + inner.middle, x + wide, y + FRAME_HEAD + inner.middle, false));
    inner.draw(into, x + from, y + FRAME_HEAD);
  } };
}
const tallOf = box => box.instances == null ? BARE_TALL : BOX_TALL;
function coresOf(box) {
  if (box.cores == null) return box.instances ? "in turn" : "";
  const one = box.cores + (box.cores === 1 ? " core" : " cores");
  return (box.instances > 1 ? box.instances + " × " : "") + one + (box.in_turn ? ", in turn" : "");
}
function boxOf(box, x, y) {
  const load = box.utilization == null ? null : Math.min(1, box.utilization), group = svg("a", { class: box.bottleneck ? "box bottleneck" : "box", href: "#/component/" + encodeURIComponent(box.component || box.key), "aria-label": box.key + (box.cores == null ? "" : ", " + coresOf(box)) + (load == null ? "" : ", " + Math.round(100 * box.utilization) + " % busy") + (box.bottleneck ? ", the bottleneck" : "") });
  group.append(svg("title", {}, box.key), svg("rect", { class: "body", x, y, width: BOX_WIDE, height: tallOf(box), rx: 9 }),
    svg("text", { class: "name", x: x + 12, y: y + 21, "font-size": 13 }, shortened(box.key, BOX_WIDE - 24, 13, 650)),
    svg("text", { class: "soft", x: x + 12, y: y + 39, "font-size": 11.5 }, coresOf(box)));
  if (load != null) {
    const words = Math.round(100 * box.utilization) + " % busy";
    group.append(svg("rect", { class: "rail", x: x + 12, y: y + BOX_TALL - 16, width: BOX_WIDE - 100, height: 6, rx: 3 }), svg("rect", { class: "load", x: x + 12, y: y + BOX_TALL - 16, width: Math.max(2, (BOX_WIDE - 100) * load), height: 6, rx: 3 }),
      svg("text", { class: "soft", x: x + BOX_WIDE - 12, y: y + BOX_TALL - 10, "text-anchor": "end", "font-size": 11 }, words));
  }
  return group;
}
