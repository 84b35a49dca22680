/**
 * Recognises TensorFlow's saved_model.pb by its structure. Its first bytes may be those of an ONNX model: both are
 * protocol buffers that begin with a version.
 */
import { StemmaError } from "../errors.js";
import type { ByteFile } from "./safetensors-reader.js";

/** A field's number and wire type (protobuf encoding, "Message structure"). */
const tag = (field: number, wireType: 0 | 2): number => (field << 3) | wireType;
/** A SavedModel has few graphs. */
const maxFields = 16;

/**
 * A SavedModel (tensorflow/core/protobuf/saved_model.proto) has the schema's version (1) and graphs (2), and nothing
 * else, up to the end of the file; ONNX has its graph in field 7.
 * @throws SAFETENSORS_MALFORMED for a saved_model.pb
 */
export async function refuseSavedModel(file: ByteFile, where: string): Promise<void> {
  if (!(await isSavedModel(file))) return;
  throw new StemmaError(
    "SAFETENSORS_MALFORMED",
    `${where} is not a safetensors file but a TensorFlow SavedModel, whose variables are in other files. Load it in ` +
      "Python with tf.saved_model.load, and write its variables with `safetensors.numpy.save_file`.",
    { reason: "a TensorFlow SavedModel" },
  );
}

async function isSavedModel(file: ByteFile): Promise<boolean> {
  const size = await file.size();
  const head = Buffer.alloc(12);
  let graphs = 0;
  let at = 0;
  for (let fields = 0; at < size && fields < maxFields; fields++) {
    head.fill(0);
    await file.read(head, at);
    const value = varint(head, 1);
    if (value === undefined) return false;
    if (head[0] === tag(1, 0)) at += value.end;
    else if (head[0] === tag(2, 2)) {
      at += value.end + value.number;
      graphs++;
    } else return false;
  }
  return at >= size && graphs > 0;
}

/** A number of base 128, least digit first; one of more than 49 bits has no file. */
function varint(bytes: Buffer, at: number): { readonly number: number; readonly end: number } | undefined {
  let number = 0;
  for (let i = 0; i < 7; i++) {
    const byte = bytes[at + i] as number;
    number += (byte & 0x7f) * 2 ** (7 * i);
    if (byte < 0x80) return { number, end: at + i + 1 };
  }
  return undefined;
}
