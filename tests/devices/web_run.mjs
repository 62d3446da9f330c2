// Runs a package on inputs: node web_run.mjs PACKAGE FEEDS.json [THREADS]; prints the results as JSON.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, file, threads] = process.argv.slice(2);
const { load } = await import(pathToFileURL(`${folder}/index.mjs`));
const model = await load({ threads: threads && Number(threads) });
const feeds = JSON.parse(readFileSync(file, "utf8"));
const kinds = { float32: Float32Array, int64: BigInt64Array, uint8: Uint8Array, int8: Int8Array };
for (const [name, { dtype, data, dims }] of Object.entries(feeds)) {
  const bytes = Uint8Array.from(Buffer.from(data, "base64"));
  const array = new kinds[dtype](bytes.buffer);
  feeds[name] = dims ? { data: array, dims } : array;
}
try {
  let results;
  for (let n = 0; n < 3; n++) results = model.run(feeds); // memory is used again
  const found = Object.values(results).map(({ data, dims }) => ({
    data: Buffer.from(data.buffer).toString("base64"),
    dtype: data.constructor.name.replace("Array", "").replace("Big", "").toLowerCase(),
    dims,
  }));
  const types = model.inputs.map((i) => i.dtype);
  console.log(JSON.stringify({ found, types, threads: model.threads }));
} catch (error) {
  console.log(JSON.stringify({ error: error.message }));
}
