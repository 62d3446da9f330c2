// Runs a package with threads in a page, in a worker of the page, and where memory is not shared.

const url = new URL("./net/index.mjs", self.location).href;
const inPage = typeof document !== "undefined";

async function found(threads, feeds) {
  const { load } = await import(url);
  try {
    const model = await load({ threads });
    for (let n = 0; n < 20; n++) model.run(feeds);
    await new Promise((done) => setTimeout(done, 50)); // the workers go to sleep
    const data = Array.from(model.run(feeds).y0.data);
    model.close();
    return { threads: model.threads, data };
  } catch (error) {
    return { error: error.message };
  }
}

async function all() {
  const feeds = { x: Float32Array.from(await (await fetch("./feeds.json")).json()) };
  const said = { isolated: crossOriginIsolated, runs: [] };
  for (const threads of [undefined, 1, 2, 4]) said.runs.push(await found(threads, feeds));
  return said;
}

if (inPage) {
  const said = await all();
  const worker = new Worker(import.meta.url, { type: "module" });
  said.worker = await new Promise((done, failed) => {
    worker.onmessage = ({ data }) => done(data);
    worker.onerror = failed;
  });
  await fetch("/said", { method: "POST", body: JSON.stringify(said) });
} else {
  all().then((said) => postMessage(said));
}
