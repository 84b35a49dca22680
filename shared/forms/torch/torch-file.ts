/**
 * State dicts as `torch.save` writes them since PyTorch 1.6: an archive with `data.pkl`, which describes the tensors,
 * and their storages in `data/0`, `data/1`, … (torch/serialization.py, "_save"). Nothing of the file is executed.
 */
import { tensorByteLength } from "../../tensor/dtype.js";
import { formMalformed, listed, quoted, type Form, type FormContent, type FormInput } from "../form.js";
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

export const torchFile: Form = {
  matches: (first) => first.length >= 4 && first.readUInt32LE(0) === 0x04034b50,
  async open(input) {
    const refuse: Refuse = (reason, advice = saveAlone) => {
      throw formMalformed(input.path, title, `${reason}. ${advice}.`);
    };
    return await readStateDict(input, refuse);
  },
};

async function readStateDict(input: FormInput, refuse: Refuse): Promise<FormContent> {
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
  const notes = others.length === 0 ? [] : [`entries that are not tensors are not kept: ${listed(others)}`];
  return { tensors, notes };
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
    if (typeof key === "string" && value instanceof StridedTensor) views.set(key, value);
    else others.push(String(key));
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
