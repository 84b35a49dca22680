/** The names in a group, in the order of HDF5 (File Format Specification 3.0, III.A.1, III.B to III.D). */
import { quoted } from "../form.js";
import { positionAt, type MetadataReader } from "./metadata-reader.js";

export interface GroupLink {
  readonly name: string;
  /** The position of the object's header. */
  readonly address: number;
}

const nodeHeadBytes = 24;
const entryBytes = 40;
const maxLinks = 200_000;
const maxDepth = 16;

/** @param table the data of the group's symbol table message */
export async function groupLinks(reader: MetadataReader, table: Buffer): Promise<readonly GroupLink[]> {
  const { fail } = reader;
  const names = await localHeap(reader, positionAt(table, 8, fail));
  const links: GroupLink[] = [];
  for await (const address of leaves(reader, positionAt(table, 0, fail), maxDepth)) {
    const head = await reader.piece(address, 8, "a list of names");
    if (head.toString("latin1", 0, 4) !== "SNOD") fail("a list of names is damaged");
    const count = head.readUInt16LE(6);
    if (links.length + count > maxLinks) fail(`a group has more than ${maxLinks} names`);
    const entries = await reader.piece(address + 8, count * entryBytes, "a list of names");
    for (let at = 0; at < entries.length; at += entryBytes) {
      const name = nameAt(names, positionAt(entries, at, fail), reader);
      if (entries.readUInt32LE(at + 16) === 2) fail(`${quoted(name)} is a link to another name`);
      links.push({ name, address: positionAt(entries, at + 8, fail) });
    }
  }
  return links;
}

/** The addresses of a tree's leaves, from left to right. */
async function* leaves(reader: MetadataReader, address: number, depth: number): AsyncIterable<number> {
  const { fail } = reader;
  const head = await reader.piece(address, nodeHeadBytes, "a tree of names");
  if (head.toString("latin1", 0, 4) !== "TREE" || head[4] !== 0) fail("a tree of names is damaged");
  if (depth === 0) fail("a tree of names leads in circles");
  const count = head.readUInt16LE(6);
  const children = await reader.piece(address + nodeHeadBytes, count * 16, "a tree of names");
  for (let i = 0; i < count; i++) {
    const child = positionAt(children, i * 16 + 8, fail);
    if (head[5] === 0) yield child;
    else yield* leaves(reader, child, depth - 1);
  }
}

async function localHeap(reader: MetadataReader, address: number): Promise<Buffer> {
  const head = await reader.piece(address, 32, "a heap of names");
  if (head.toString("latin1", 0, 4) !== "HEAP") reader.fail("a heap of names is damaged");
  const start = positionAt(head, 24, reader.fail);
  return await reader.piece(start, positionAt(head, 8, reader.fail), "a heap of names");
}

function nameAt(names: Buffer, at: number, { fail }: MetadataReader): string {
  const end = names.indexOf(0, at);
  if (at >= names.length || end < at) return fail("a name is not where it should be");
  const name = names.toString("utf8", at, end);
  return name === "" || name.includes("/") ? fail(`a name is ${quoted(name)}`) : name;
}
