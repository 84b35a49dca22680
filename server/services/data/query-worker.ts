/**
 * Runs a query in a thread: SQLite compiled to WebAssembly, over a copy of the database in memory. So neither
 * a query nor a database can reach a file. Its caller ends it when it takes too long.
 */
import { createRequire } from "node:module";
import { parentPort, workerData } from "node:worker_threads";
import type { QueryAnswer, QueryWork } from "./query-rows.js";

interface Statement {
  step(): boolean;
  getColumnNames(): string[];
  get(parameters: null, config: { readonly useBigInt: true }): unknown[];
  getSQL(): string;
}
interface Database {
  iterateStatements(sql: string): Iterable<Statement>;
}
type StartSql = () => Promise<{ readonly Database: new (bytes: Uint8Array) => Database }>;

const quoted = (text: string): string =>
  /[",\r\n]/.test(text) || text === "" ? `"${text.replaceAll('"', '""')}"` : text;

/** A value as a CSV field; undefined for one that a table cannot have. */
function fieldOf(value: unknown): string | undefined {
  if (typeof value === "string") return quoted(value);
  if (typeof value === "bigint") return String(value);
  return typeof value === "number" && Number.isFinite(value) ? String(value) : undefined;
}

function answerOf(database: Database, { query, maxBytes }: QueryWork): QueryAnswer {
  const lines: string[] = [];
  let bytes = 0;
  let statements = 0;
  for (const statement of database.iterateStatements(query)) {
    if (statements++ > 0) return { problem: "it has more than one statement" };
    const names = statement.getColumnNames();
    if (names.length === 0) return { problem: "it gives no columns: it has to be a SELECT" };
    lines.push(names.map(quoted).join(","));
    while (statement.step()) {
      const values = statement.get(null, { useBigInt: true });
      const fields = values.map(fieldOf);
      const missing = fields.indexOf(undefined);
      if (missing >= 0)
        return {
          problem:
            `row ${lines.length} has ${values[missing] === null ? "NULL" : "a value that is neither a number nor text"} ` +
            `in the column ${names[missing] ?? ""} (COALESCE gives another value for NULL)`,
        };
      const line = fields.join(",");
      bytes += line.length;
      if (bytes > maxBytes) return { problem: `its rows have more than ${maxBytes} characters` };
      lines.push(line);
    }
  }
  return statements === 0
    ? { problem: "it is empty" }
    : { rows: `${lines.join("\n")}\n`, count: lines.length - 1 };
}

const work = workerData as QueryWork;
const start = createRequire(import.meta.url)("../../../vendor/sql-wasm.cjs") as StartSql;
const { Database } = await start();
let answer: QueryAnswer;
try {
  answer = answerOf(new Database(work.database), work);
} catch (error) {
  answer = { problem: error instanceof Error ? error.message : String(error) };
}
parentPort?.postMessage(answer);
