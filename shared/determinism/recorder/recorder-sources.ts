/** Finds the C sources of the recorder, which are compiled on the machine that records (docs/reproduce.md). */
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The library that the loader puts before the C library, and the program that starts another one with it. */
export function recorderSources(): { readonly library: string; readonly launcher: string } {
  const folder = dirname(fileURLToPath(import.meta.url));
  return { library: join(folder, "recorder.c"), launcher: join(folder, "launch.c") };
}
