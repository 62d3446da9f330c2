// The threads of a model: workers whose instances of its code share one memory.

/** How many threads the system has for us. */
export async function available() {
  if (globalThis.navigator?.hardwareConcurrency) return navigator.hardwareConcurrency;
  const { availableParallelism } = await import("node:os");
  return availableParallelism();
}

/** The memory of a model. One thread needs no leave to share it. */
export function sharedMemory({ name, memory }, threads) {
  if (threads > 1 && (globalThis.crossOriginIsolated === false || !globalThis.SharedArrayBuffer)) {
    throw new Error(
      `${name}: threads need SharedArrayBuffer, which this page may not use: its server has to send ` +
        "the headers Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: " +
        "require-corp; or load({ threads: 1 })",
    );
  }
  for (let maximum = memory.most; ; maximum >>= 1) {
    try {
      return new WebAssembly.Memory({ initial: memory.pages, maximum, shared: true });
    } catch (error) {
      if (!(error instanceof RangeError) || maximum < 2 * memory.pages) throw error;
    } // phones do not set so many addresses aside
  }
}

/** Starts the workers of a model; they wait for loops. */
export async function start({ name, memory }, module, wasm, threads) {
  const room = wasm.__tls_size.value + memory.stack;
  const blocks = wasm.allocate(room * (threads - 1)) >>> 0;
  if (!blocks || !wasm.threads(threads, maySleep())) {
    throw new Error(`${name}: no memory for ${threads} threads`);
  }
  const make = await maker();
  const workers = [];
  try {
    const started = [];
    for (let number = 0; number < threads - 1; number++) {
      const worker = make();
      workers.push(worker);
      started.push(answer(name, worker));
      const block = blocks + number * room;
      worker.postMessage({ module, memory: wasm.memory, block, end: block + room, number });
    }
    await Promise.all(started);
  } catch (error) {
    for (const worker of workers) worker.terminate();
    throw error;
  }
  for (const worker of workers) worker.unref?.(); // node may end while they wait
  return workers;
}

function answer(name, worker) {
  const listen = (event, act) => (worker.addEventListener ?? worker.on).call(worker, event, act);
  return new Promise((done, failed) => {
    listen("message", done);
    listen("error", (e) => failed(new Error(`${name}: a worker failed: ${e.message ?? e.type}`)));
  });
}

async function maker() {
  if (globalThis.Worker) {
    return () => new Worker(new URL("./worker.mjs", import.meta.url), { type: "module" });
  }
  const threads = await import("node:worker_threads");
  const options = { execArgv: [] }; // node refuses some of its own here, such as --input-type
  return () => new threads.Worker(new URL("./worker.mjs", import.meta.url), options);
}

/** Whether this thread may wait: that of a page may not. */
function maySleep() {
  try {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 1); // it is 0
    return true;
  } catch {
    return false;
  }
}
