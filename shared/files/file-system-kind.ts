/** Tells file systems that one kernel at a time has mounted from those that machines share, by Linux's numbers. */
import { statfs } from "node:fs/promises";

/** Numbers of statfs(2), from linux/magic.h and the file systems' own sources. */
const localTypes = new Map([
  [0xef53, "ext4"],
  [0x58465342, "xfs"],
  [0x9123683e, "btrfs"],
  [0xf2f52010, "f2fs"],
  [0x2fc12fc1, "zfs"],
  [0xca451a4e, "bcachefs"],
  [0x3153464a, "jfs"],
  [0x52654973, "reiserfs"],
  [0x3434, "nilfs2"],
  [0x24051905, "ubifs"],
  [0x72b6, "jffs2"],
  [0x01021994, "tmpfs"],
  [0x858458f6, "ramfs"],
  [0x794c7630, "overlay"],
  [0x4d44, "vfat"],
  [0x2011bab0, "exfat"],
  [0x7366746e, "ntfs3"],
]);
const sharedTypes = new Map([
  [0x6969, "nfs"],
  [0xff534d42, "cifs"],
  [0xfe534d42, "smb2"],
  [0x517b, "smb"],
  [0x01021997, "9p"],
  [0x65735546, "fuse"],
  [0x00c36400, "ceph"],
  [0x0bd00bd0, "lustre"],
  [0x47504653, "gpfs"],
  [0x01161970, "gfs2"],
  [0x7461636f, "ocfs2"],
  [0x5346414f, "afs"],
  [0x73757245, "coda"],
  [0x786f4256, "vboxsf"],
  [0xbacbacbc, "vmhgfs"],
]);

export interface FileSystemKind {
  readonly kind: "local" | "shared" | "unknown";
  /** The usual name, or the number. */
  readonly name: string;
}

/** Classifies a number of statfs(2). GlusterFS, virtiofs and sshfs are FUSE there. */
export function fileSystemOfType(type: number): FileSystemKind {
  // A kernel of 32 bits gives the number with a sign.
  const number = type < 0 ? type + 2 ** 32 : type;
  const local = localTypes.get(number);
  if (local !== undefined) return { kind: "local", name: local };
  const shared = sharedTypes.get(number);
  if (shared !== undefined) return { kind: "shared", name: shared };
  return { kind: "unknown", name: `type 0x${number.toString(16)}` };
}

/** The kind of the file system of a folder; `unknown` where it cannot be asked. */
export async function fileSystemOf(folder: string): Promise<FileSystemKind> {
  if (process.platform !== "linux") return { kind: "unknown", name: process.platform };
  return await statfs(folder).then(
    ({ type }) => fileSystemOfType(type),
    () => ({ kind: "unknown", name: "unknown" }) as const,
  );
}
