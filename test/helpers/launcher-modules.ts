/** The launcher's modules, which are plain JavaScript outside dist/, with the types by which tests use them. */
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export const checkout = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");

/** @param name from the checkout's root, such as "launcher/tests/files.mjs" */
export async function launcherModule<T>(name: string): Promise<T> {
  return (await import(pathToFileURL(join(checkout, name)).href)) as T;
}
