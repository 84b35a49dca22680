/** Finds the C sources of the recorder, which are compiled on the machine that records (docs/reproduce.md). */
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export interface RecorderSources {
  /** The library that the loader puts before the C library. */
  readonly library: string;
  /** The program that starts another one with it. */
  readonly launcher: string;
  /** The library that lists which libraries a process has. */
  readonly libraries: string;
}

export function recorderSources(): RecorderSources {
  const folder = dirname(fileURLToPath(import.meta.url));
  const at = (name: string): string => join(folder, name);
  return { library: at("recorder.c"), launcher: at("launch.c"), libraries: at("libraries.c") };
}
