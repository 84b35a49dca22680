/**
 * Registers data with one spelling of each path, whoever calls (a bug that replays found in MERIT, ME13).
 * Those of a SQL query become a table of its rows, which the home keeps.
 */
import { resolve } from "node:path";
import { isUrl } from "../../../shared/data/data-url.js";
import type { Files } from "../../../shared/ports.js";
import type { DatasetReference } from "../../../shared/train/training.js";
import { keepRows, rowsOfQuery } from "./query-rows.js";

interface AddressedData {
  readonly kind: string;
  readonly location: string;
  readonly parameters: DatasetReference["parameters"];
}

/** @throws DATASET_MALFORMED, DATASET_EMPTY, FILE_MISSING, DISK_FULL of a query */
export async function addressedData(
  { kind, location, parameters }: AddressedData,
  { files, rowsFolder }: { readonly files: Files; readonly rowsFolder: string },
): Promise<AddressedData> {
  if (kind !== "sql")
    return { kind, parameters, location: location === "" || isUrl(location) ? location : resolve(location) };
  const { query: given = "", ...others } = parameters;
  const query = Array.isArray(given) ? given.join() : String(given);
  const rows = await rowsOfQuery(resolve(location), query);
  return {
    kind: "csv",
    location: await keepRows(files, rowsFolder, rows),
    parameters: { ...others, query: [query], database: rows.database },
  };
}
