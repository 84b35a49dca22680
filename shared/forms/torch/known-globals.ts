/** The functions and classes that a state dict names, and what their calls describe (torch/_utils.py). */
import type { DType } from "../../tensor/dtype.js";
import { Dict, Global, Storage, StridedTensor, type PickleValue } from "./pickle-values.js";

type Fail = (reason: string) => never;

const storageTypes: ReadonlyMap<string, DType> = new Map([
  ["torch.DoubleStorage", "F64"],
  ["torch.FloatStorage", "F32"],
  ["torch.HalfStorage", "F16"],
  ["torch.BFloat16Storage", "BF16"],
  ["torch.LongStorage", "I64"],
  ["torch.IntStorage", "I32"],
  ["torch.ShortStorage", "I16"],
  ["torch.CharStorage", "I8"],
  ["torch.ByteStorage", "U8"],
  ["torch.BoolStorage", "BOOL"],
  ["torch.ComplexFloatStorage", "C64"],
] as const);

const calls: ReadonlyMap<string, (parameters: readonly PickleValue[], fail: Fail) => PickleValue> = new Map([
  [
    "collections.OrderedDict",
    (parameters, fail) => (parameters.length === 0 ? new Dict() : fail("it makes an OrderedDict of a list")),
  ],
  ["torch._utils._rebuild_tensor_v2", rebuildTensor],
  [
    "torch._utils._rebuild_parameter",
    ([tensor], fail) =>
      tensor instanceof StridedTensor ? tensor : fail("it makes a parameter of no tensor"),
  ],
]);

export function isKnownGlobal(path: string): boolean {
  return calls.has(path) || storageTypes.has(path);
}

/** The value that a call describes. */
export function callKnown(path: string, parameters: readonly PickleValue[], fail: Fail): PickleValue {
  const call = calls.get(path);
  return call === undefined ? fail(`it calls ${path}`) : call(parameters, fail);
}

/** _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None) */
function rebuildTensor(parameters: readonly PickleValue[], fail: Fail): PickleValue {
  const [storage, offset, shape, strides, , , metadata = null] = parameters;
  if (metadata !== null && !(metadata instanceof Dict && metadata.items.size === 0))
    return fail("it has a tensor that is conjugated, negated or marked otherwise without its bytes being so");
  if (!(storage instanceof Storage) || !isIndex(offset) || !isIndices(shape) || !isIndices(strides))
    return fail("it has a tensor whose storage, offset, shape or strides are not such");
  if (shape.length !== strides.length)
    return fail("it has a tensor with more or fewer strides than dimensions");
  return new StridedTensor(storage, offset, shape, strides);
}

/** The persistent id ("storage", type, key, location, elements); the location is the device it was on. */
export function storageOf(id: PickleValue, fail: Fail): Storage {
  const [kind, type, key, , elements] = Array.isArray(id) ? id : [];
  if (kind !== "storage" || !(type instanceof Global) || typeof key !== "string" || !isIndex(elements))
    return fail("it refers to something that is not a storage of tensors");
  const dtype = storageTypes.get(type.path);
  return dtype === undefined
    ? fail(`it has a storage of the type ${type.path}`)
    : new Storage(dtype, key, elements);
}

function isIndex(value: PickleValue | undefined): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function isIndices(value: PickleValue | undefined): value is number[] {
  return Array.isArray(value) && value.every(isIndex);
}
