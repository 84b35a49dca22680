/** The committed WebAssembly of training and of the codec is what its sources compile to. */
import { test } from "node:test";
import { assertIsCompiled } from "../../helpers/committed-kernels.js";

for (const name of ["train", "delta"] as const)
  test(`the committed kernels of ${name} are what their sources compile to`, () => assertIsCompiled(name));
