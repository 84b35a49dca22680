/** Writes a page to a file that a person names: complete or not at all, and nothing of theirs is lost. */
import { basename } from "node:path";
import { formatBytes } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { pathOf, type Printed } from "../plain-command.js";
import { refuseExisting } from "../stream-file.js";

/** Options of the commands that write one. */
export const pageOptions = {
  html: { text: "<file> write it to this .html file, as a page for any browser", read: pathOf },
  force: "with --html: overwrite an existing file",
} as const;

/** Larger pages are slow in browsers. */
const maxPageBytes = 32_000_000;

/** Refuses options that ask for something else than a page. @throws USAGE */
export function refuseWithPage(others: Readonly<Record<string, unknown>>): void {
  const other = Object.keys(others).find((name) => others[name] !== undefined && others[name] !== false);
  if (other !== undefined)
    throw new StemmaError("USAGE", `--html and --${other} are two answers. Leave out one of them.`);
}

/**
 * @param make is called once the name is known to be good, as it may take long
 * @throws USAGE where the name does not end in .html, or the page has too many bytes; FILE_EXISTS
 */
export async function writePage(
  file: string,
  { force }: { readonly force: boolean },
  make: () => Promise<string>,
): Promise<Printed> {
  if (!/[^.]\.html$/i.test(basename(file)))
    throw new StemmaError("USAGE", `${file} does not end in .html, as a page does. Name another file.`, {
      path: file,
    });
  await refuseExisting(file, force);
  const bytes = Buffer.from(await make());
  if (bytes.length > maxPageBytes)
    throw new StemmaError(
      "USAGE",
      `The page would have ${formatBytes(bytes.length)}, more than ${formatBytes(maxPageBytes)}. ` +
        "Choose fewer versions, such as with --limit.",
    );
  await writeDurably(nodeFiles(), file, bytes);
  return {
    data: { file, bytes: bytes.length },
    names: [file],
    text: `wrote ${file} (${formatBytes(bytes.length)}); open it in a browser`,
  };
}
