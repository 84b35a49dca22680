/**
 * State dicts as `torch.save` writes them since PyTorch 1.6: an archive with `data.pkl`, which describes the tensors,
 * and their storages in `data/0`, `data/1`, … (torch/serialization.py, "_save"). Nothing of the file is executed.
 */
import { tensorByteLength } from "../../tensor/dtype.js";
import { readFully } from "../../tensor/safetensors-reader.js";
import {
  formMalformed,
  listed,
  quoted,
  type Form,
  type FormContent,
  type FormInput,
  type OpenedPart,
} from "../form.js";
import type { Refuse } from "../zip-archive.js";
import { Dict, StridedTensor, type PickleValue } from "./pickle-values.js";
import { formTensor, ReorderedTensor } from "./strided-tensor.js";
import { readTensorPickle } from "./tensor-pickle.js";
import { TorchArchive } from "./torch-archive.js";

const title = "a PyTorch state dict";
const saveAlone =
  'Save the tensors alone with torch.save(model.state_dict(), "model.pt") or safetensors.torch.save_file';
/** Names may share a storage; a file that stands for more than this many times its bytes is refused. */
const maxSharing = 16;

export const torchFile: Form = { matches: beginsArchive, open: readStateDict };

const beginningBytes = 4;

function beginsArchive(first: Buffer): boolean {
  return first.length >= beginningBytes && first.readUInt32LE(0) === 0x04034b50;
}

/** True where a file's first bytes are those of an archive. @param where its path, for messages */
export async function beginsTorchFile({ file, size }: OpenedPart, where: string): Promise<boolean> {
  const first = Buffer.alloc(Math.min(size, beginningBytes));
  await readFully(file, first, 0, where);
  return beginsArchive(first);
}

/** A state dict's tensors, and their bytes with those of each storage counted once. @throws MODEL_FILE_MALFORMED */
export async function readStateDict(
  input: Pick<FormInput, "path" | "file" | "size">,
): Promise<FormContent & { readonly storedBytes: number }> {
  const refuse: Refuse = (reason, advice = saveAlone) => {
    throw formMalformed(input.path, title, `${reason}. ${advice}.`);
  };
  const archive = await TorchArchive.open(input, refuse);
  const { views, others } = viewsOf(readTensorPickle(await archive.pickle(), refuse), refuse);
  const file = { part: input, reordered: new ReorderedTensor(input) };
  const tensors = [];
  for (const [name, view] of views) {
    const start = await archive.startOf(view.storage);
    const fail = (reason: string): never =>
      refuse(`the tensor ${quoted(name)} ${reason}`, "Save it as tensor.clone().contiguous()");
    tensors.push(formTensor(file, start, { name, view }, fail));
  }
  requireBounded([...views.values()], input.size, refuse);
  const notes = others.length === 0 ? [] : [`entries that are not tensors are not read: ${listed(others)}`];
  return { tensors, notes, storedBytes: storedBytesOf([...views.values()]) };
}

/** Bytes of the first tensor of each storage, as Hugging Face's tools count them. */
function storedBytesOf(views: readonly StridedTensor[]): number {
  const first = new Map<string, StridedTensor>();
  for (const view of views) if (!first.has(view.storage.key)) first.set(view.storage.key, view);
  return [...first.values()].reduce(
    (sum, { storage, shape }) => sum + tensorByteLength(storage.dtype, shape),
    0,
  );
}

interface Views {
  readonly views: ReadonlyMap<string, StridedTensor>;
  /** Names of what is not a tensor. */
  readonly others: readonly string[];
}

function viewsOf(described: PickleValue, refuse: Refuse): Views {
  if (!(described instanceof Dict)) return refuse("what it has is not a dict of tensors");
  const views = new Map<string, StridedTensor>();
  const others: string[] = [];
  for (const [key, value] of described.items)
    if (!(value instanceof StridedTensor)) others.push(String(key));
    else if (typeof key === "string") views.set(key, value);
    else return refuse(`the tensor ${key} is named by a number`, "Name it by text, and save it again");
  if (views.size > 0) return { views, others };
  const nested = [...described.items]
    .filter(([, value]) => value instanceof Dict)
    .map(([key]) => String(key));
  return refuse(
    nested.length === 0
      ? "it has no tensors"
      : `its top has no tensors, only ${listed(nested)}, which may have some below`,
  );
}

function requireBounded(views: readonly StridedTensor[], size: number, refuse: Refuse): void {
  const bytes = views.reduce((sum, { storage, shape }) => sum + tensorByteLength(storage.dtype, shape), 0);
  if (bytes > maxSharing * size)
    refuse(`its tensors have ${bytes} bytes together, and share the ${size} bytes of the file too often`);
}
