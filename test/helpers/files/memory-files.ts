/** The file port in memory for tests: each file's bytes in one array, from which crash-states.ts makes crashes. */
import {
  filesInMemory,
  folderInMemory,
  nodeInMemory,
  placeInMemory,
  type FileContents,
  type FileInMemory,
  type FilesInMemoryOptions,
  type FolderInMemory,
  type NodeInMemory,
} from "../../../shared/files/memory-files.js";
import type { FilesToReadNow } from "../../../shared/ports.js";

export interface MemoryFile extends FileInMemory {
  bytes: Uint8Array;
}
export type MemoryFolder = FolderInMemory<MemoryFile>;
export type MemoryNode = NodeInMemory<MemoryFile>;

export const memoryFolder = folderInMemory<MemoryFile>;
export const memoryPlace = placeInMemory<MemoryFile>;
export const memoryNodeAt = nodeInMemory<MemoryFile>;

export function memoryFile(): MemoryFile {
  return { kind: "file", bytes: new Uint8Array(0), size: 0, modifiedMs: 0 };
}

/** Writes into a file and grows it as needed; a gap is filled with zeros. */
export function writeMemoryFile(file: MemoryFile, bytes: Uint8Array, position: number): void {
  const end = position + bytes.length;
  if (end > file.bytes.length) {
    const grown = new Uint8Array(Math.max(end, file.bytes.length * 2));
    grown.set(file.bytes.subarray(0, file.size));
    file.bytes = grown;
  }
  file.bytes.set(bytes, position);
  file.size = Math.max(file.size, end);
}

/** Shortens a file, or extends it with zeros. */
export function truncateMemoryFile(file: MemoryFile, size: number): void {
  if (size < file.size) file.bytes.fill(0, size, file.size);
  else writeMemoryFile(file, new Uint8Array(size - file.size), file.size);
  file.size = size;
}

const inOneArray: FileContents<MemoryFile> = {
  make: memoryFile,
  read: (file, target, position) => {
    const length = Math.max(0, Math.min(target.length, file.size - position));
    target.set(file.bytes.subarray(position, position + length));
    return length;
  },
  write: writeMemoryFile,
  truncate: truncateMemoryFile,
};

/** Files in memory. Paths are absolute, as on a disk; the root folder exists, all others must be made. */
export function memoryFiles(
  options: FilesInMemoryOptions<MemoryFile> = {},
): FilesToReadNow & { readonly root: MemoryFolder } {
  return filesInMemory(inOneArray, options);
}
