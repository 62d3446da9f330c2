// A canvas to draw on; the network says which digit it is, after every stroke.

import { load } from "./digits/index.mjs";
import { classify } from "./classify.mjs";

const model = await load();
const canvas = document.querySelector("canvas");
const pen = canvas.getContext("2d", { willReadFrequently: true });
const answer = document.querySelector("output");
const odds = document.querySelector("#odds");

function clear() {
  pen.fillStyle = "white";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  answer.textContent = odds.textContent = "";
}

function show() {
  const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
  const { digit, chance } = classify(model, data, canvas.width);
  answer.textContent = digit;
  odds.textContent = `${(100 * chance).toFixed(0)} %`;
}

canvas.addEventListener("pointermove", (event) => {
  if (!event.buttons) return;
  pen.beginPath();
  pen.arc(event.offsetX, event.offsetY, 12, 0, 2 * Math.PI);
  pen.fillStyle = "black";
  pen.fill();
});
canvas.addEventListener("pointerup", show);
document.querySelector("button").addEventListener("click", clear);
clear();
