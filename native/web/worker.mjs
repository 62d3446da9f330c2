// One thread of a model: an instance of its code that works on the loops of the first instance.

import { system } from "./system.mjs";

function work({ module, memory, block, end, number }, port) {
  const { exports } = new WebAssembly.Instance(module, {
    env: { memory },
    wasi_snapshot_preview1: system({ memory }),
  });
  exports.__wasm_init_tls(block);
  exports.__stack_pointer.value = end - (end % 16);
  port.postMessage("started");
  try {
    exports.work(number);
  } catch (error) {
    exports.abandon(number); // whoever waits for the loop gets an error
    throw error;
  }
}

if (globalThis.postMessage) {
  globalThis.onmessage = ({ data }) => work(data, globalThis);
} else {
  import("node:worker_threads").then(({ parentPort }) =>
    parentPort.once("message", (data) => work(data, parentPort)),
  );
}
