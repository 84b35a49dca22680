/** Each way in which a probe can end gives a report, or an error that says what to do. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { instructionSetOf } from "../../../../agent/backend/machine-facts.js";
import { reportOf, type ProbeEnd } from "../../../../agent/backend/probe-library.js";
import { isStemmaError } from "../../../../shared/errors.js";

const ended: ProbeEnd = {
  code: 0,
  signal: null,
  stdout: "",
  stderr: "",
  memoryLimitMb: 512,
  isTimedOut: false,
};
const failure = (message: string): Partial<ProbeEnd> => ({
  code: 1,
  stdout: `${JSON.stringify({ type: "error", code: "BACKEND_UNAVAILABLE", message })}\n`,
});

const ends: readonly (readonly [Partial<ProbeEnd>, RegExp])[] = [
  [{ code: null, signal: "SIGILL" }, /need AVX on x64\). Take a TensorFlow that was built for this/],
  [{ code: null, signal: "SIGILL", stderr: "Fatal JavaScript out of memory" }, /limit 512 MiB/],
  [{ code: null, signal: "SIGKILL" }, /too little memory .*Raise the limit/],
  [{ code: null, signal: "SIGABRT", stderr: "what():  std::bad_alloc" }, /too little memory/],
  [
    failure("libcuda.so.1: cannot open shared object file: No such file or directory"),
    /libcuda\.so\.1 is missing.*install the driver/,
  ],
  [
    failure("libcudnn.so.9: cannot open shared object file: No such file or directory"),
    /libcudnn\.so\.9 is missing.*CUDA or cuDNN/,
  ],
  [failure("/lib/libm.so.6: version `GLIBC_2.38' not found (required by x)"), /needs GLIBC_2\.38.*older rel/],
  [failure("x.node: undefined symbol: TFE_Execute"), /TFE_Execute is missing.*Link without --binding/],
  [failure("CUDNN_STATUS_NOT_INITIALIZED: DNN library"), /GPU could not compute.*nvidia-smi/],
  [{ code: null, signal: "SIGABRT" }, /too little memory/],
  [{ code: null, signal: "SIGKILL", isTimedOut: true }, /did not end within 5 minutes/],
  [{ code: null, signal: "SIGSEGV" }, /by SIGSEGV: without a word.*another release/],
  [{ code: 3, stderr: "something else" }, /with status 3: something else/],
  // A report counts only from a process that ended in order.
  [{ code: 1, stdout: '{"type":"probe","report":{}}\n' }, /with status 1/],
];

test("a failed probe says what to do", () => {
  for (const [end, words] of ends)
    assert.throws(
      () => reportOf({ ...ended, ...end }),
      (error) => isStemmaError(error, "BACKEND_UNAVAILABLE") && words.test(error.message),
      `${JSON.stringify(end)} against ${String(words)}`,
    );
});

test("a report keeps what the library said of GPUs", () => {
  const report = reportOf({
    ...ended,
    stdout: 'TensorFlow says hello\n{"type":"probe","report":{"tensorflow":"2.18.1"}}\n',
    stderr:
      "2026-11-28 10:00:00.1: E external/x.cc:152] failed call to cuInit: CUDA error 303\nanother line\n",
  });
  assert.equal(report.tensorflow, "2.18.1");
  assert.deepEqual(report.notes, ["failed call to cuInit: CUDA error 303"]);
});

test("the instructions of a processor are those by which code is chosen", () => {
  assert.equal(
    instructionSetOf("processor: 0\nflags\t\t: fpu smep sse4_2 avx2 avx fma bmi1\nflags: other\n"),
    "avx avx2 fma sse4_2",
  );
  assert.equal(instructionSetOf("Features\t: fp asimd evtstrm asimdhp sve2\n"), "asimd asimdhp sve2");
  assert.equal(instructionSetOf(""), "unknown");
});
