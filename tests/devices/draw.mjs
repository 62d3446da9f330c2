// Draws on the page of examples/web as a person would, and says what the page answers.

import "./page.mjs"; // is ready when its model is

const canvas = document.querySelector("canvas");
const SIDE = 8;

function point(type, x, y, buttons) {
  const { left, top } = canvas.getBoundingClientRect();
  const clientX = left + canvas.clientLeft + x;
  const clientY = top + canvas.clientTop + y;
  canvas.dispatchEvent(new PointerEvent(type, { clientX, clientY, buttons, bubbles: true }));
}

const text = (what) => document.querySelector(what).textContent;

function draw(image) {
  document.querySelector("button").click();
  if (text("output")) throw new Error("it is not cleared");
  const cell = canvas.width / SIDE;
  image.forEach((row, y) =>
    row.forEach((ink, x) => {
      if (ink > 0.4) point("pointermove", (x + 0.5) * cell, (y + 0.5) * cell, 1);
      point("pointermove", 5, 5, 0); // no button is pressed
    }),
  );
  point("pointerup", 0, 0, 0);
  return { digit: text("output"), odds: text("#odds") };
}

const drawings = await (await fetch("./drawings.json")).json();
await fetch("/said", { method: "POST", body: JSON.stringify(drawings.map(draw)) });
