// Classifies drawings as the page of examples/web does: node digits_run.mjs EXAMPLE PACKAGE DRAWINGS.json

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [example, folder, file] = process.argv.slice(2);
const { classify } = await import(pathToFileURL(`${example}/classify.mjs`));
const { load } = await import(pathToFileURL(`${folder}/index.mjs`));
const model = await load();
const SIDE = 64;
const found = JSON.parse(readFileSync(file, "utf8")).map((image) => {
  const pixels = new Uint8ClampedArray(4 * SIDE * SIDE).fill(255);
  for (let y = 0; y < SIDE; y++) {
    for (let x = 0; x < SIDE; x++) {
      const ink = image[Math.floor((y * 8) / SIDE)][Math.floor((x * 8) / SIDE)];
      pixels.fill(255 - 255 * ink, 4 * (y * SIDE + x), 4 * (y * SIDE + x) + 3);
    }
  }
  return classify(model, pixels, SIDE).digit;
});
console.log(JSON.stringify(found));
