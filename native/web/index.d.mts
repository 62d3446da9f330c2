export type Data =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Float32Array
  | Float64Array;

/** A tensor in row-major order. */
export interface Tensor {
  data: Data;
  dims: number[];
}

/** An input or output: extents are numbers, names of sizes, or expressions over them. */
export interface TensorInfo {
  readonly name: string;
  readonly dtype: string;
  readonly dims: readonly (number | string)[];
}

export type Source = string | URL | Response | ArrayBuffer | ArrayBufferView;

export interface Model {
  readonly name: string;
  readonly inputs: readonly TensorInfo[];
  readonly outputs: readonly TensorInfo[];
  /** How many threads a run uses. */
  readonly threads: number;
  /** Runs the model: values by name; a typed array alone where the sizes of an input are fixed. */
  run(feeds: Record<string, Data | Tensor>): Record<string, Tensor>;
  /** Ends its threads, and gives up its memory. */
  close(): void;
}

/**
 * Loads the model; by default from the files beside this one. threads: at most those that it was
 * compiled for; by default as many as there are.
 */
export function load(options?: {
  wasm?: Source;
  weights?: Source;
  threads?: number;
}): Promise<Model>;
