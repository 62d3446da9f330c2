// The graph of a model: drawn from the places that the page brings along, folded and found here.
const SVG = "http://www.w3.org/2000/svg";
const graph = JSON.parse(document.getElementById("diagram").textContent);
const picture = document.getElementById("picture");
const drawing = document.getElementById("drawing");
const rows = [...document.querySelectorAll("#kernels tbody tr")];
const boxes = graph.boxes;
const root = { inside: [], passages: graph.passages, open: true, x: 0, room: graph.width };
boxes.forEach((box, id) => {
  Object.assign(box, { id, inside: [], open: false });
  box.around = box.parent === null ? root : boxes[box.parent];
  box.around.inside.push(box);
  if (box.kernel !== undefined && rows[box.kernel]) rows[box.kernel].box = box;
});
for (const box of boxes) box.text = `${box.label}\n${box.nodes.join("\n")}`.toLowerCase();

// ---- places: layers under one another; a layer is as high as its highest box

const LINE = 15, HEAD = 26, PAD = 12;
const lines = (box) => [box.nodes.join(", "), ...(box.figures ?? []), ...(box.weights ?? [])].filter(Boolean);
const closedHeight = (box) => HEAD + 4 + LINE * lines(box).length;

const place = (box, gap) => {
  const layers = [];
  for (const b of box.inside) (layers[b.layer] ??= []).push(b);
  let y = box === root ? 0 : HEAD + PAD;
  box.bands = layers.map((layer) => {
    const heights = layer.map((b) => (b.h = b.open ? place(b, 36) : closedHeight(b)));
    const high = Math.max(...heights);
    for (const b of layer) b.y = y + (high - b.h) / 2;
    const band = [y, y + high];
    y += high + gap;
    return band;
  });
  return y - gap + PAD;
};

const fix = (box, left, top) => {
  for (const b of box.inside) {
    b.cx = left + b.x;
    b.top = top + b.y;
    if (b.open) fix(b, b.cx, b.top);
  }
};

const visible = (box) => {
  let found = box;
  for (let b = box.around; b !== root; b = b.around) if (!b.open) found = b;
  return found;
};
const around = (box) => {
  const found = [];
  for (let b = box; b; b = b.around) found.push(b);
  return found;
};

// ---- drawing

const make = (name, attributes, ...content) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...content);
  return made;
};
const shortened = (text, width, letter) => {
  const most = Math.floor(width / letter);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};

// The points that a link goes through: in every box that it is in, past the layers on its way.
const way = (from, to, key) => {
  const out = around(from), into = around(to);
  const common = out.find((b) => into.includes(b));
  const points = [[from.cx, from.top + from.h]];
  const pass = (box, first, last) => {
    const [start, sides] = box.passages?.[key] ?? [0, []];
    for (let n = Math.max(first, start); n < Math.min(last, start + sides.length); n++) {
      const x = (box.cx ?? 0) + sides[n - start];
      for (const y of box.bands[n]) points.push([x, (box.top ?? 0) + y]);
    }
  };
  const upTo = out.indexOf(common), downTo = into.indexOf(common);
  for (let n = 1; n < upTo; n++) pass(out[n], out[n - 1].layer + 1, Infinity);
  pass(common, out[upTo - 1].layer + 1, into[downTo - 1].layer);
  for (let n = downTo - 1; n > 0; n--) pass(into[n], 0, into[n - 1].layer);
  points.push([to.cx, to.top]);
  return points;
};
const curve = (points) =>
  points.reduce((path, [x, y], n) => {
    if (n === 0) return `M${x} ${y}`;
    const [px, py] = points[n - 1];
    const middle = (py + y) / 2;
    return px === x ? `${path}V${y}` : `${path}C${px} ${middle} ${x} ${middle} ${x} ${y}`;
  }, "");

const drawLinks = (layer, labels) => {
  const drawn = new Set(), labelled = new Map();
  for (const [a, b, type] of graph.links) {
    const from = visible(boxes[a]), to = visible(boxes[b]);
    const known = `${from.id} ${to.id} ${a}`;
    if (from === to || drawn.has(known)) continue;
    drawn.add(known);
    const path = make("path", { d: curve(way(from, to, a)), class: "link", "marker-end": "url(#tip)" });
    const text = graph.types[type];
    path.append(make("title", {}, `${text}\n${boxes[a].label} → ${boxes[b].label}`));
    layer.append(path);
    const spot = `${from.id} ${text}`;
    if (labelled.has(spot)) continue;
    const nth = [...labelled.keys()].filter((k) => k.startsWith(`${from.id} `)).length;
    labelled.set(spot, true);
    labels.append(
      make("text", { x: from.cx + 7, y: from.top + from.h + 13 + 12 * nth, class: "type" }, text),
    );
  }
};

const drawBox = (box) => {
  const w = box.open ? box.room : box.w;
  const program = rows[box.kernel]?.dataset.program;
  const g = make("g", {
    class: `node ${box.kind}${box.open ? " open" : ""}`,
    transform: `translate(${box.cx - w / 2} ${box.top})`,
    tabindex: 0,
    "data-id": box.id,
    "aria-label": [box.kind, box.label, ...lines(box)].join(", "),
    role: program === undefined ? "group" : "link",
  });
  const rect = make("rect", { width: w, height: box.h, rx: 6 });
  if (box.heat !== undefined) rect.style.setProperty("--heat", `${Math.round(100 * box.heat)}%`);
  g.append(make("title", {}, [box.label, ...lines(box)].join("\n")), rect);
  const room = w - 16 - (box.inside.length ? 22 : 0);
  g.append(make("text", { x: 8, y: 18, class: "label" }, shortened(box.label, room, 7.3)));
  if (!box.open) {
    lines(box).forEach((text, n) =>
      g.append(
        make("text", { x: 8, y: HEAD + 10 + LINE * n, class: box.figures?.includes(text) ? "figure" : "detail" },
          shortened(text, w - 16, 6.2)),
      ),
    );
  }
  if (box.inside.length) {
    const label = `${box.open ? "fold" : "unfold"} ${box.label}`;
    const toggle = make("g", { class: "toggle", role: "button", tabindex: 0, "aria-label": label,
      "aria-expanded": box.open, "data-toggle": box.id, transform: `translate(${w - 26} 4)` });
    toggle.append(
      make("title", {}, label),
      make("rect", { width: 22, height: 20, rx: 4 }),
      make("text", { x: 11, y: 15 }, box.open ? "−" : "+"),
    );
    g.append(toggle);
  }
  return g;
};

const draw = () => {
  root.h = place(root, 46);
  fix(root, 0, 0);
  const tip = make("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7,
    markerHeight: 7, orient: "auto" }, make("path", { d: "M0 0L8 4L0 8z" }));
  const links = make("g", {}), labels = make("g", {}), nodes = make("g", {});
  for (const box of boxes) {
    box.node = visible(box) === box ? drawBox(box) : null;
    if (box.node) nodes.append(box.node);
  }
  drawLinks(links, labels);
  // What is inside an opened box is drawn on it, and links between the two.
  const under = make("g", {});
  for (const box of boxes) {
    if (!box.node || !box.open) continue;
    const place = { x: box.cx - box.room / 2, y: box.top, width: box.room, height: box.h, rx: 6 };
    under.append(make("rect", { ...place, class: "ground" }));
  }
  drawing.replaceChildren(make("defs", {}, tip), under, links, labels, nodes);
  mark();
};

// ---- moving

const view = { x: 0, y: 0, k: 1 };
const move = () => {
  drawing.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.k})`);
  picture.classList.toggle("far", view.k < 0.6);
};
const zoom = (by, x = picture.clientWidth / 2, y = picture.clientHeight / 2) => {
  const k = Math.min(4, Math.max(0.02, view.k * by));
  view.x = x - ((x - view.x) * k) / view.k;
  view.y = y - ((y - view.y) * k) / view.k;
  view.k = k;
  move();
};
const fit = (whole) => {
  const { clientWidth: w, clientHeight: h } = picture;
  const wide = Math.min(1, w / (root.room + 40));
  view.k = whole ? Math.min(wide, h / (root.h + 40)) : Math.max(0.4, wide);
  // What is too wide is shown around its first box.
  view.x = w / 2 - (view.k > wide ? boxes[0].cx * view.k : 0);
  view.y = 20 * view.k;
  move();
};
const centre = (box) => {
  const shown = visible(box);
  view.k = Math.max(view.k, 0.7);
  view.x = picture.clientWidth / 2 - shown.cx * view.k;
  view.y = picture.clientHeight / 2 - (shown.top + Math.min(shown.h, 200) / 2) * view.k;
  move();
};
// What has the focus has to be seen.
const reveal = (box) => {
  const x = view.x + box.cx * view.k, y = view.y + box.top * view.k;
  if (x < 0 || y < 0 || x > picture.clientWidth || y + 20 > picture.clientHeight) centre(box);
};

const unfoldTo = (box) => {
  let changed = false;
  for (let b = box.around; b !== root; b = b.around) {
    changed ||= !b.open;
    b.open = true;
  }
  if (changed) draw();
};
const toggle = (box) => {
  const before = view.k * box.top;
  box.open = !box.open;
  draw();
  view.y += before - view.k * box.top; // the box stays where it is
  move();
  box.node.querySelector(".toggle").focus({ preventScroll: true });
};

// ---- marks: what the pointer is at, what was chosen, what was found

const state = { at: null, chosen: null, found: [] };
const mark = () => {
  drawing.querySelectorAll(".at, .chosen, .hit").forEach((e) => e.classList.remove("at", "chosen", "hit"));
  for (const row of rows) {
    row.classList.toggle("at", row.box === state.at);
    row.classList.toggle("chosen", row.box === state.chosen);
  }
  for (const box of state.found) visible(box).node?.classList.add("hit");
  if (state.chosen) visible(state.chosen).node?.classList.add("chosen");
  if (state.at) visible(state.at).node?.classList.add("at");
};
// An operator's row is that of the kernel it is in.
const boxAt = (target) => boxes[target.closest?.("[data-id]")?.dataset.id];
const kernelOf = (box) => box && around(box).find((b) => b.kernel !== undefined);
const at = (box) => {
  const kernel = kernelOf(box) ?? null;
  if (kernel === state.at) return;
  state.at = kernel;
  mark();
};

let drag = null, dragged = false;
picture.addEventListener("pointerdown", (event) => {
  dragged = false;
  if (event.button === 0) drag = [event.clientX - view.x, event.clientY - view.y, event.clientX, event.clientY];
});
picture.addEventListener("pointermove", (event) => {
  if (!drag) return at(boxAt(event.target));
  if (!dragged && Math.hypot(event.clientX - drag[2], event.clientY - drag[3]) < 4) return;
  if (!dragged) picture.setPointerCapture(event.pointerId);
  dragged = true;
  view.x = event.clientX - drag[0];
  view.y = event.clientY - drag[1];
  move();
});
for (const end of ["pointerup", "pointercancel"]) picture.addEventListener(end, () => (drag = null));
picture.addEventListener("pointerleave", () => at(null));
picture.addEventListener("wheel", (event) => {
  event.preventDefault();
  const frame = picture.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.03 : 0.0015)), event.clientX - frame.left, event.clientY - frame.top);
}, { passive: false });

const press = (target) => {
  const folding = target.closest("[data-toggle]");
  const box = boxAt(target);
  if (folding) toggle(boxes[folding.dataset.toggle]);
  else if (kernelOf(box)) openKernel(kernelOf(box).kernel);
  else if (box?.inside.length) toggle(box);
};
picture.addEventListener("click", (event) => dragged || press(event.target));
picture.addEventListener("focusin", (event) => {
  const box = boxAt(event.target);
  if (box && event.target.matches(":focus-visible")) reveal(box);
  at(box);
});
picture.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
  if (step) {
    view.x += step[0];
    view.y += step[1];
    move();
  } else if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.25 : 0.8);
  else if (event.key === "Enter" || event.key === " ") press(event.target);
  else return;
  event.preventDefault();
});

const actions = {
  in: () => zoom(1.25),
  out: () => zoom(0.8),
  fit: () => fit(true),
  unfold: () => foldAll(true),
  fold: () => foldAll(false),
};
const foldAll = (open) => {
  for (const box of boxes) box.open = open && box.inside.length > 0;
  draw();
  fit(false);
};
document.querySelectorAll("[data-do]").forEach((button) => {
  button.addEventListener("click", () => actions[button.dataset.do]());
});

// ---- finding

const find = document.getElementById("find"), count = document.getElementById("found");
let turn = 0;
const search = () => {
  const wanted = find.value.trim().toLowerCase();
  state.found = wanted ? boxes.filter((b) => b.kind !== "block" && b.text.includes(wanted)) : [];
  const kernels = new Set(state.found.map(kernelOf));
  for (const row of rows) row.hidden = Boolean(wanted) && !kernels.has(row.box);
  turn = 0;
  count.textContent = wanted ? `${state.found.length} found` : "";
  mark();
};
find.addEventListener("input", search);
find.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !state.found.length) return;
  const box = state.found[turn++ % state.found.length];
  count.textContent = `${((turn - 1) % state.found.length) + 1} of ${state.found.length}`;
  unfoldTo(box);
  choose(kernelOf(box) ?? box);
  centre(box);
});

// ---- the table

const choose = (box) => {
  state.chosen = box;
  mark();
  rows[box.kernel]?.scrollIntoView({ block: "nearest" });
};
for (const row of rows) {
  row.addEventListener("pointerenter", () => at(row.box));
  row.addEventListener("pointerleave", () => at(null));
  row.addEventListener("click", (event) => {
    if (event.target.closest("a")) return;
    unfoldTo(row.box);
    choose(row.box);
    centre(row.box);
  });
}
document.querySelectorAll("#kernels thead button").forEach((button, column) => {
  const head = button.parentElement;
  const value = (row) => Number(row.children[column].dataset.value || -1);
  button.addEventListener("click", () => {
    // Figures begin with the largest, the order of the model with its start.
    const first = column === 0 ? "ascending" : "descending";
    const other = column === 0 ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    for (const h of head.parentElement.children) h.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    document.querySelector("#kernels tbody").append(...[...rows].sort((a, b) => sign * (value(a) - value(b))));
  });
});

// ---- the page of a kernel, which is unpacked when it is opened

const opened = document.getElementById("opened"), model = document.getElementById("model");
const unpack = async (packed) => {
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
};
const element = (tag, text, attributes = {}) => {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(text);
  return made;
};
const openKernel = (kernel) => {
  if (rows[kernel]?.dataset.program !== undefined) location.hash = `k${kernel}`;
};
const summary = (row) => {
  const list = element("dl", "", { className: "totals" });
  const heads = document.querySelectorAll("#kernels thead th");
  [...row.children].forEach((cell, n) => {
    if (n === 0 || !cell.textContent) return;
    const pair = element("div", element("dt", heads[n].textContent));
    pair.append(element("dd", cell.textContent));
    list.append(pair);
  });
  return list;
};
const turnTo = async () => {
  const row = rows[/^#k(\d+)$/.exec(location.hash)?.[1]];
  const name = row?.dataset.program;
  if (name === undefined) {
    model.hidden = false;
    opened.hidden = true;
    opened.replaceChildren();
    return;
  }
  // The text was made by the same program as the page, with all names in it escaped.
  const content = document.createElement("template");
  content.innerHTML = await unpack(document.getElementById(`p${name}`).content.textContent);
  const title = element("h2", row.box.label, { tabIndex: -1 });
  const back = element("a", "← graph and kernels", { href: "#graph" });
  opened.replaceChildren(back, title, element("p", row.box.nodes.join(", "), { className: "hint" }), summary(row));
  const others = rows.filter((r) => r !== row && r.dataset.program === name);
  if (others.length) {
    const links = element("p", "The same program computes: ", { className: "hint" });
    others.forEach((r, n) => {
      links.append(n ? ", " : "", element("a", r.box.nodes.join(" + ") || r.box.label, { href: `#k${r.box.kernel}` }));
    });
    opened.append(links);
  }
  opened.append(content.content);
  model.hidden = true;
  opened.hidden = false;
  linkProgram(opened);
  opened.querySelectorAll(".stepper").forEach(addSlider);
  choose(row.box);
  scrollTo(0, 0);
  title.focus({ preventScroll: true });
};
addEventListener("hashchange", turnTo);

draw();
fit(false);
turnTo();
