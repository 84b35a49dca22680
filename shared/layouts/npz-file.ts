/** Arrays of NumPy's .npz: a ZIP of .npy entries without compression, of float32 in C order (NEP 1, npy 1.0 to 3.0). */
import { StemmaError } from "../errors.js";
import { openRegularFile } from "../files/regular-file.js";
import { ZipArchive } from "../forms/zip-archive.js";
import { readFully } from "../tensor/safetensors-reader.js";
import type { Tensor } from "../tensor/tensor.js";

const zipMagic = "PK\x03\x04";
const npyMagic = "\x93NUMPY";
const maxArrays = 64;

/** @throws FILE_MISSING, FILE_NOT_REGULAR, FILE_FAILED */
export async function isNpz(path: string): Promise<boolean> {
  const { file, size } = await openRegularFile(path, { followLinks: true });
  try {
    const first = Buffer.alloc(Math.min(size, zipMagic.length));
    await readFully(file, first, 0, path);
    return first.toString("latin1") === zipMagic;
  } finally {
    await file.close();
  }
}

/** @throws MODEL_FILE_MALFORMED for other arrays than of float32, compressed ones, and more than `maxBytes` of them */
export async function readNpz(path: string, maxBytes: number): Promise<ReadonlyMap<string, Tensor>> {
  const refuse = (reason: string): never => {
    throw new StemmaError(
      "MODEL_FILE_MALFORMED",
      `${path} cannot be read as NumPy's .npz: ${reason}. Write it with numpy.savez, its arrays as float32.`,
      { path },
    );
  };
  const { file, size } = await openRegularFile(path, { followLinks: true });
  try {
    if (size > maxBytes) refuse(`it has more than ${maxBytes} bytes`);
    const archive = await ZipArchive.open({ file, size }, refuse);
    const arrays = archive.names.filter((name) => name.endsWith(".npy"));
    if (arrays.length > maxArrays) refuse(`it has more than ${maxArrays} arrays`);
    const found = new Map<string, Tensor>();
    // Entries may share their bytes: the file's own length bounds nothing.
    let left = maxBytes;
    for (const name of arrays) {
      const bytes = await archive.inMemory(name, left);
      left -= bytes.length;
      found.set(name.slice(0, -4), arrayOf(bytes, refuse));
    }
    return found;
  } finally {
    await file.close();
  }
}

function arrayOf(bytes: Buffer, refuse: (reason: string) => never): Tensor {
  const version = bytes[6] ?? 0;
  const start = version === 1 ? 10 : 12;
  if (bytes.length < 12 || bytes.toString("latin1", 0, 6) !== npyMagic || version < 1 || version > 3)
    refuse("an entry is not an array");
  const end = start + (version === 1 ? bytes.readUInt16LE(8) : bytes.readUInt32LE(8));
  const header = bytes.toString("latin1", start, Math.min(end, start + 10_000));
  const [, descr = "", order = "", extents = ""] =
    /^\{'descr': '([^']*)', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\),? *\}\s*$/.exec(header) ??
    [];
  if (descr !== "<f4" || order !== "False")
    refuse("an array is not of float32 in C order (numpy.ascontiguousarray(a, numpy.float32))");
  const shape = extents
    .split(",")
    .filter((extent) => extent.trim() !== "")
    .map(Number);
  const data = bytes.subarray(end);
  if (data.length !== shape.reduce((product, extent) => product * extent, 4))
    refuse("an array has not the bytes of its shape");
  return { dtype: "F32", shape, bytes: new Uint8Array(data) };
}
