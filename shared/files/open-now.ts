/** Opens files of this machine that are read while the event loop waits: blocks of an index. */
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import type { FileToReadNow } from "../ports.js";
import { fileError } from "./file-error.js";
import { requireRegular } from "./not-regular.js";

/** @throws FILE_MISSING, FILE_NOT_REGULAR, FILE_FAILED; each method throws FILE_FAILED */
export function openNodeFileNow(path: string): FileToReadNow {
  const attempt = <T>(what: string, work: () => T): T => {
    try {
      return work();
    } catch (error) {
      throw fileError(error, what, path);
    }
  };
  // Opening a pipe would wait for its other end.
  const descriptor = attempt("open", () => openSync(path, constants.O_RDONLY | constants.O_NONBLOCK));
  try {
    requireRegular(fstatSync(descriptor), path);
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
  let isClosed = false;
  // Another file that was opened since may have the same descriptor.
  const requireOpen = (): void => {
    if (isClosed) throw Object.assign(new Error("the file was closed"), { code: "EBADF" });
  };
  return {
    size: () =>
      attempt("get the size of", () => {
        requireOpen();
        return fstatSync(descriptor).size;
      }),
    read: (target, position) =>
      attempt("read", () => {
        requireOpen();
        let done = 0;
        while (done < target.length) {
          const count = readSync(descriptor, target, done, target.length - done, position + done);
          if (count === 0) break;
          done += count;
        }
        return done;
      }),
    close: () => {
      if (isClosed) return;
      isClosed = true;
      attempt("close", () => {
        closeSync(descriptor);
      });
    },
  };
}
