// A model that smelt compiled to WebAssembly.
//
//     import { load } from "./index.mjs";
//     const model = await load();
//     const results = model.run({ x: new Float32Array(...) });
//     results.y.data, results.y.dims

import { description, parallel } from "./model.mjs";
import { system } from "./system.mjs";

const ARRAYS = {
  bool: Uint8Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  float16: Uint16Array, // their bits
  bfloat16: Uint16Array,
  float32: Float32Array,
  float64: Float64Array,
};
const TENSOR = 24; // bytes of a smelt_tensor: data, rank, shape, dtype; see host.c
const EXTENT = 8;

/**
 * Loads the model. wasm, weights: URLs, Responses or bytes; by default the files beside. threads: how
 * many a run uses, at most those that the code was compiled for; by default as many as there are.
 */
export async function load({ wasm, weights, threads } = {}) {
  const { name } = description;
  if (threads !== undefined && !(Number.isInteger(threads) && threads > 0)) {
    throw new Error(`${name}: threads is ${threads}; legal: 1 or more`);
  }
  const code = await bytes(wasm ?? new URL("./model.wasm", import.meta.url));
  const constants = description.weights
    ? await bytes(weights ?? new URL("./model.bin", import.meta.url))
    : new Uint8Array(0);
  if (constants.byteLength !== description.weights) {
    throw new Error(
      `${name}: ${constants.byteLength} bytes of constants; ${description.weights} are needed`,
    );
  }
  const count = parallel ? Math.min(threads ?? (await parallel.available()), description.threads) : 1;
  const memory = parallel?.sharedMemory(description, count);
  const loaded = { memory };
  const { module, instance } = await WebAssembly.instantiate(code, {
    env: { memory },
    wasi_snapshot_preview1: system(loaded),
  });
  const { exports } = instance;
  loaded.memory = exports.memory;
  exports._initialize?.();
  const workers = count > 1 ? await parallel.start(description, module, exports, count) : [];
  return new Model(exports, constants, workers);
}

class Model {
  #wasm;
  #model;
  #weights = 0;
  #workers;

  constructor(wasm, constants, workers) {
    this.#wasm = wasm;
    this.#workers = workers;
    this.threads = workers.length + 1;
    this.name = description.name;
    this.inputs = description.inputs;
    this.outputs = description.outputs;
    if (constants.byteLength) {
      this.#weights = this.#allocate(constants.byteLength);
      new Uint8Array(wasm.memory.buffer, this.#weights).set(constants);
    }
    this.#model = wasm.open(this.#weights);
    if (!this.#model) throw this.#failure();
  }

  /**
   * Runs the model. feeds: for each input by name a typed array, or { data, dims } where its sizes
   * are not fixed. Gives { data, dims } for each output by name.
   */
  run(feeds) {
    if (!this.#wasm) throw new Error(`${this.name}: it is closed`);
    const held = [];
    const hold = (count) => held[held.push(this.#allocate(count)) - 1];
    try {
      for (const name of Object.keys(feeds)) {
        if (!this.inputs.some((i) => i.name === name)) {
          const known = this.inputs.map((i) => i.name).join(", ") || "none";
          throw new Error(`${this.name}: no input ${name}; it has: ${known}`);
        }
      }
      const inputs = hold(Math.max(1, this.inputs.length) * TENSOR);
      this.inputs.forEach((info, n) => {
        const { data, dims } = fitting(this.name, info, feeds[info.name]);
        const at = hold(data.byteLength);
        new Uint8Array(this.#wasm.memory.buffer, at).set(
          new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
        );
        this.#write(inputs + n * TENSOR, at, info, dims, hold(dims.length * EXTENT));
      });
      return this.#results(inputs, hold);
    } finally {
      for (const at of held) this.#wasm.free(at);
    }
  }

  /** Ends its threads, and gives up its memory. */
  close() {
    for (const worker of this.#workers) worker.terminate();
    this.#workers = [];
    this.#wasm = undefined;
  }

  #results(inputs, hold) {
    const wasm = this.#wasm;
    const ranks = this.outputs.map((o) => o.dims.length);
    const extents = hold(ranks.reduce((a, b) => a + b, 1) * EXTENT);
    const outputs = hold(Math.max(1, this.outputs.length) * TENSOR);
    const decides = wasm.decides();
    if (!decides && wasm.shapes(this.#model, inputs, extents)) throw this.#failure();
    let at = extents;
    const places = this.outputs.map((info, n) => {
      const place = at;
      const dims = decides ? [] : this.#extents(place, ranks[n]);
      const size = dims.reduce((a, b) => a * b, ARRAYS[info.dtype].BYTES_PER_ELEMENT);
      const data = decides ? 0 : hold(size);
      this.#write(outputs + n * TENSOR, data, info, null, place, ranks[n]);
      at += ranks[n] * EXTENT;
      return place;
    });
    const status = wasm.run(this.#model, inputs, outputs);
    const view = new DataView(wasm.memory.buffer);
    const found = places.map((_, n) => view.getUint32(outputs + n * TENSOR, true));
    try {
      if (status) throw this.#failure();
      const results = {};
      this.outputs.forEach((info, n) => {
        const dims = this.#extents(places[n], ranks[n]);
        const count = dims.reduce((a, b) => a * b, 1);
        const data = new ARRAYS[info.dtype](wasm.memory.buffer, found[n], count).slice();
        results[info.name] = { data, dims };
      });
      return results;
    } finally {
      if (decides) for (const data of found) wasm.free(data);
    }
  }

  #write(at, data, info, dims, place, rank = dims.length) {
    const view = new DataView(this.#wasm.memory.buffer);
    view.setUint32(at, data, true);
    view.setBigInt64(at + 8, BigInt(rank), true);
    view.setUint32(at + 16, place, true);
    view.setInt32(at + 20, info.code, true);
    dims?.forEach((d, n) => view.setBigInt64(place + n * EXTENT, BigInt(d), true));
  }

  #extents(at, rank) {
    return Array.from(new BigInt64Array(this.#wasm.memory.buffer, at, rank), Number);
  }

  #allocate(count) {
    const at = count < 2 ** 32 ? this.#wasm.allocate(count) >>> 0 : 0;
    if (!at) throw new Error(`${this.name}: no memory for ${count} bytes`);
    return at;
  }

  #failure() {
    const text = new Uint8Array(this.#wasm.memory.buffer, this.#wasm.error() >>> 0);
    return new Error(new TextDecoder().decode(text.slice(0, text.indexOf(0))));
  }
}

/** What a user gave for an input, as { data, dims }. */
function fitting(model, info, given) {
  const shape = `${info.dtype}[${info.dims.join(", ")}]`;
  if (given === undefined) throw new Error(`${model}: input ${info.name}, ${shape}, is missing`);
  const { data, dims } = ArrayBuffer.isView(given) ? { data: given, dims: undefined } : given;
  const kind = ARRAYS[info.dtype];
  if (!(data instanceof kind)) {
    const what = data?.constructor?.name ?? typeof data;
    throw new Error(`${model}: input ${info.name} is a ${what}; ${shape} takes a ${kind.name}`);
  }
  const fixed = info.dims.every((d) => typeof d === "number");
  if (!dims && !fixed) {
    throw new Error(`${model}: input ${info.name}, ${shape}: give { data, dims }, its sizes differ`);
  }
  const sizes = dims ?? info.dims;
  const count = sizes.reduce((a, b) => a * b, 1);
  if (count !== data.length) {
    throw new Error(
      `${model}: input ${info.name} has ${data.length} elements; ${info.dtype}[${sizes.join(", ")}] ` +
        `has ${count}`,
    );
  }
  return { data, dims: sizes };
}

/** The bytes of a URL, a Response, or what they are already. */
async function bytes(source) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) {
    return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  }
  if (typeof Response !== "undefined" && source instanceof Response) {
    return new Uint8Array(await source.arrayBuffer());
  }
  const url = new URL(source, import.meta.url);
  if (url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    return new Uint8Array(await readFile(url));
  }
  const found = await fetch(url);
  if (!found.ok) throw new Error(`${url}: ${found.status} ${found.statusText}`);
  return new Uint8Array(await found.arrayBuffer());
}
