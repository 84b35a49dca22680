/**
 * Files on this machine's disk, of which only regular ones are opened: for paths that a person or another program
 * names, and folders that come from elsewhere, such as backups. node-files.ts waits for the other end of a pipe.
 */
import { stat } from "node:fs/promises";
import type { Files } from "../ports.js";
import { nodeFiles, type NodeFilesOptions } from "./node-files.js";
import { isOpenDescriptor, requireRegular } from "./not-regular.js";

/** @throws FILE_NOT_REGULAR from `open` and `read`, where the path leads to a pipe, a socket, a device or a folder */
export function regularFiles(options: NodeFilesOptions = {}): Files {
  const files = nodeFiles(options);
  return {
    ...files,
    open: async (path, mode) => {
      await refuseOthers(path);
      return await files.open(path, mode);
    },
    read: async (path) => {
      if (!isOpenDescriptor(path)) await refuseOthers(path);
      return await files.read(path);
    },
  };
}

/** A path that leads to nothing is left to what opens it. */
async function refuseOthers(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found !== undefined) requireRegular(found, path);
}
