// Times a package of smelt and an ONNX model in onnxruntime-web, in turns:
// node web_speed.mjs PACKAGE MODEL.onnx FEEDS.json THREADS; prints medians in ms as JSON.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import * as ort from "onnxruntime-web";

const [folder, file, given, threads] = process.argv.slice(2);
const [ROUNDS, RUNS, PAUSE] = [5, 10, 200]; // of so many runs each; ms, in which threads go to sleep

ort.env.wasm.numThreads = Number(threads);
const session = await ort.InferenceSession.create(readFileSync(file), {
  executionProviders: ["wasm"],
});
const { load } = await import(pathToFileURL(`${folder}/index.mjs`));
const model = await load({ threads: Number(threads) });
const kinds = { float32: Float32Array, int64: BigInt64Array };
const theirs = {};
const ours = {};
for (const [name, { data, dims }] of Object.entries(JSON.parse(readFileSync(given, "utf8")))) {
  const { dtype } = model.inputs.find((i) => i.name === name);
  const array = kinds[dtype].from(dtype === "int64" ? data.map(BigInt) : data);
  theirs[name] = new ort.Tensor(dtype, array, dims);
  ours[name] = { data: array, dims };
}

const times = { smelt: [], onnxruntime: [] };
async function timed(list, run) {
  await new Promise((done) => setTimeout(done, PAUSE)); // threads of the other wait awake for a while
  let found = await run();
  for (let n = 1; n < RUNS; n++) {
    const start = performance.now();
    found = await run();
    list.push(performance.now() - start);
  }
  return found;
}
let apart = 0;
for (let n = 0; n < ROUNDS; n++) {
  const a = await timed(times.smelt, () => model.run(ours));
  const b = await timed(times.onnxruntime, () => session.run(theirs));
  for (const [name, { data }] of Object.entries(a)) {
    const other = b[name].data;
    const largest = other.reduce((most, v) => Math.max(most, Math.abs(Number(v))), 1e-30);
    data.forEach((v, i) => {
      apart = Math.max(apart, Math.abs(Number(v) - Number(other[i])) / largest);
    });
  }
}
const median = (list) => list.sort((a, b) => a - b)[Math.floor(list.length / 2)];
if (model.threads !== Number(threads)) throw new Error(`${model.threads} threads`);
console.log(
  JSON.stringify({ smelt: median(times.smelt), onnxruntime: median(times.onnxruntime), apart }),
);
process.exit(0); // onnxruntime-web's threads would go on
