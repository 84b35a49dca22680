/**
 * Known remedies for runs that differ (CH §3.4 to 3.6; CH11): variables that a library reads, and operations that are
 * not deterministic, by the library that has them. Entries without a source are not here. Data.
 */

/** A variable that takes one source of difference away, at the cost of time. */
export interface Flag {
  readonly name: string;
  readonly value: string;
  /** Matches libraries and programs that read it. */
  readonly readBy: RegExp;
  readonly source: string;
}

export const flags: readonly Flag[] = [
  {
    name: "PYTHONHASHSEED",
    value: "0",
    readBy: /^(lib)?python/,
    source: "Python documentation, Command line and environment",
  },
  {
    name: "OMP_NUM_THREADS",
    value: "1",
    readBy: /^lib(gomp|omp|iomp5)\b/,
    source: "OpenMP API specification, OMP_NUM_THREADS",
  },
  {
    name: "CUBLAS_WORKSPACE_CONFIG",
    value: ":4096:8",
    readBy: /^libcublas\b/,
    source: "cuBLAS documentation, Results Reproducibility",
  },
  {
    name: "TF_DETERMINISTIC_OPS",
    value: "1",
    readBy: /^libtensorflow/,
    source: "NVIDIA framework-determinism, README (TensorFlow 2.1 and later)",
  },
];

/** Operations of a framework that give other bits from run to run. */
export interface UnstableOperations {
  readonly framework: string;
  readonly loadedAs: RegExp;
  readonly versions: string;
  readonly operations: string;
  readonly remedy: "patched" | "experimental" | "none";
  readonly how: string;
  readonly source: string;
}

export const unstableOperations: readonly UnstableOperations[] = [
  {
    framework: "PyTorch",
    loadedAs: /^libtorch/,
    versions: "1.8 and later",
    operations:
      "Conv1d to 3d and ConvTranspose1d to 3d on CUDA; bmm of sparse by dense on CUDA; index_put(accumulate=True) on the CPU",
    remedy: "patched",
    how: "torch.use_deterministic_algorithms(True) in the program",
    source: "PyTorch documentation, torch.use_deterministic_algorithms (1.8.1)",
  },
  {
    framework: "PyTorch",
    loadedAs: /^libtorch_cuda/,
    versions: "1.8",
    operations: "gradients of AvgPool3d, AdaptiveAvgPool2d, AdaptiveAvgPool3d and MaxPool3d on CUDA",
    remedy: "none",
    how: "use_deterministic_algorithms(True) makes them errors; use other layers",
    source: "PyTorch documentation, torch.use_deterministic_algorithms (1.8.1)",
  },
  {
    framework: "TensorFlow",
    loadedAs: /^libtensorflow|^_pywrap_tensorflow/,
    versions: "1.14, 1.15, 2.0",
    operations: "bias_add on the GPU",
    remedy: "patched",
    how: "tensorflow-determinism 0.3.0: from tfdeterminism import patch; patch()",
    source: "Chen et al., §4.1; PyPI, tensorflow-determinism",
  },
  {
    framework: "TensorFlow",
    loadedAs: /^libtensorflow|^_pywrap_tensorflow/,
    versions: "with tf.config.experimental.enable_op_determinism",
    operations: "operations whose threads add in any order, mostly on GPUs; tf.data with parallel steps",
    remedy: "experimental",
    how: "tf.config.experimental.enable_op_determinism() in the program",
    source: "TensorFlow API documentation, enable_op_determinism",
  },
  {
    framework: "cuDNN",
    loadedAs: /^libcudnn/,
    versions: "all",
    operations:
      "ConvolutionBackwardFilter ALGO_0 and ALGO_3, ConvolutionBackwardData ALGO_0, PoolingBackward MAX, SpatialTfSamplerBackward",
    remedy: "patched",
    how: "choose other algorithms (PyTorch: torch.backends.cudnn.deterministic = True)",
    source: "NVIDIA cuDNN documentation, Reproducibility (Determinism)",
  },
];

const isLoaded = (pattern: RegExp, names: readonly string[]): boolean =>
  names.some((name) => pattern.test(name));

/** @param names of the libraries and programs of a run */
export function flagsFor(names: readonly string[]): readonly Flag[] {
  return flags.filter(({ readBy }) => isLoaded(readBy, names));
}
export function unstableOperationsOf(names: readonly string[]): readonly UnstableOperations[] {
  return unstableOperations.filter(({ loadedAs }) => isLoaded(loadedAs, names));
}
