/** The refusal of what is not a regular file: a pipe would block its reader for ever, a device may never end. */
import type { BigIntStats, Stats } from "node:fs";
import { StemmaError } from "../errors.js";

/**
 * Names of descriptors that this process has open, such as a shell's `<(command)`: somebody writes into such a pipe, or
 * has closed it.
 */
const openDescriptor = /^\/(?:dev\/fd|proc\/self\/fd)\/\d+$|^\/dev\/stdin$/;

export const isOpenDescriptor = (path: string): boolean => openDescriptor.test(path);

/** @throws FILE_NOT_REGULAR */
export function requireRegular(found: Stats | BigIntStats, path: string): void {
  if (found.isFile()) return;
  throw notRegular(
    path,
    found.isDirectory()
      ? "a folder"
      : found.isSymbolicLink()
        ? "a symbolic link"
        : found.isFIFO()
          ? "a pipe"
          : found.isSocket()
            ? "a socket"
            : "a device",
  );
}

export function notRegular(path: string, kind: string): StemmaError {
  return new StemmaError("FILE_NOT_REGULAR", `${path} is ${kind}, not a file. Name a regular file.`, {
    path,
    kind,
  });
}
