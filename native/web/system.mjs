// The functions of WASI for a model's code: it has a clock, and no files.

const ENOSYS = 52;

/** loaded: { memory }, which is known when the code is. */
export function system(loaded) {
  const clock_time_get = (clock, precision, at) => {
    const time = BigInt(Math.round(performance.now() * 1e6));
    new DataView(loaded.memory.buffer).setBigUint64(at, time, true);
    return 0;
  };
  return new Proxy({ clock_time_get }, { get: (known, name) => known[name] ?? (() => ENOSYS) });
}
