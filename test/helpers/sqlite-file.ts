/** Writes SQLite files for tests. */
import { writeFile } from "node:fs/promises";
import { createRequire } from "node:module";

type StartSql = () => Promise<{
  readonly Database: new () => { run(sql: string): void; export(): Uint8Array };
}>;

/** @param sql statements that fill an empty database */
export async function writeSqlite(path: string, sql: string): Promise<void> {
  const { Database } = await (createRequire(import.meta.url)("sql.js") as StartSql)();
  const database = new Database();
  database.run(sql);
  await writeFile(path, database.export());
}
