"use strict";

// A line of text and the box that it belongs to light up together.
const linkProgram = (program) => {
  const lines = [...program.querySelectorAll(".panes .line")];
  const lit = [];
  const dark = () => {
    for (const element of lit.splice(0)) element.classList.remove("lit", "head");
  };
  const light = (element, ...names) => {
    element.classList.add(...names);
    lit.push(element);
  };
  const show = (box) => {
    dark();
    if (!box) return;
    light(box, "lit");
    const first = Number(box.dataset.first);
    for (let n = first; n <= Number(box.dataset.last); n++) {
      light(lines[n - 1], "lit", ...(n === first ? ["head"] : []));
    }
  };
  const boxOf = (target) => {
    const line = target.closest(".panes .line");
    return line ? document.getElementById(line.dataset.box) : target.closest(".box");
  };
  const panes = program.querySelector(".panes");
  panes.addEventListener("pointerover", (event) => show(boxOf(event.target)));
  panes.addEventListener("pointerleave", dark);
  panes.addEventListener("focusin", (event) => show(boxOf(event.target)));
  // A click on a line brings its box into view.
  panes.addEventListener("click", (event) => {
    const line = event.target.closest(".line");
    const box = line && boxOf(line);
    if (!box) return;
    for (let outer = box; outer; outer = outer.parentElement.closest("details")) outer.open = true;
    box.scrollIntoView({ block: "nearest", behavior: "smooth" });
  });
};

// The steps of a schedule: one at a time, chosen by a slider.
const addSlider = (stepper) => {
  const steps = [...stepper.querySelectorAll(".steps > li")];
  if (steps.length < 2) return;
  const bar = document.createElement("div");
  bar.className = "slider";
  const label = document.createElement("label");
  const slider = document.createElement("input");
  Object.assign(slider, { type: "range", min: 1, max: steps.length, value: steps.length });
  const button = (text, name, by) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.setAttribute("aria-label", name);
    made.addEventListener("click", () => {
      slider.value = Number(slider.value) + by;
      choose();
    });
    return made;
  };
  const choose = () => {
    const chosen = Number(slider.value);
    label.firstChild.textContent = `Step ${chosen} of ${steps.length} `;
    steps.forEach((step, n) => {
      step.hidden = n + 1 !== chosen;
      if (n + 1 === chosen) step.querySelector("details").open = true;
    });
  };
  const all = document.createElement("button");
  all.type = "button";
  all.textContent = "Show all";
  all.setAttribute("aria-pressed", "false");
  all.addEventListener("click", () => {
    const pressed = all.getAttribute("aria-pressed") !== "true";
    all.setAttribute("aria-pressed", String(pressed));
    if (pressed) steps.forEach((step) => (step.hidden = false));
    else choose();
  });
  label.append(" ", slider);
  bar.append(button("◀", "previous step", -1), label, button("▶", "next step", 1), all);
  slider.addEventListener("input", choose);
  stepper.prepend(bar);
  choose();
};

const activate = (root) => {
  root.querySelectorAll(".program").forEach(linkProgram);
  root.querySelectorAll(".stepper").forEach(addSlider);
};
activate(document);
