// Type-checked lint, and the rules that keep training bit-exact: no Math transcendental and no hidden
// randomness or clock between data and tensor.
import tseslint from "typescript-eslint";
import stemma from "./launcher/lint/comment-start.mjs";

const transcendental = [
  "exp",
  "expm1",
  "log",
  "log2",
  "log10",
  "log1p",
  "pow",
  "sin",
  "cos",
  "tan",
  "asin",
  "acos",
  "atan",
  "atan2",
  "sinh",
  "cosh",
  "tanh",
  "cbrt",
  "hypot",
];
const forbid = (object, properties, message) => properties.map((property) => ({ object, property, message }));
const randomness = {
  object: "Math",
  property: "random",
  message: "Draw from a named stream (training) or the Random port.",
};

export default tseslint.config(
  {
    ignores: [
      "dist/**",
      "node_modules/**",
      ".build/**",
      "out/**",
      "**/kernels/assembly/**",
      "shared/wire/generated/**/*.js",
      "server/learning/query/generated/**",
      "docs/**",
      ".stemma-demo/**",
    ],
  },
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/no-floating-promises": [
        "error",
        {
          allowForKnownSafeCalls: [
            {
              from: "package",
              package: "node:test",
              name: ["test", "it", "describe", "suite", "before", "after", "beforeEach", "afterEach"],
            },
          ],
        },
      ],
      "@typescript-eslint/no-misused-promises": "error",
      "@typescript-eslint/await-thenable": "error",
      "@typescript-eslint/no-explicit-any": "error",
      "@typescript-eslint/no-unused-vars": [
        "error",
        { argsIgnorePattern: "^_", varsIgnorePattern: "^_", caughtErrorsIgnorePattern: "^_" },
      ],
      "@typescript-eslint/switch-exhaustiveness-check": [
        "error",
        { considerDefaultExhaustiveForUnions: true },
      ],
      "no-restricted-properties": ["error", randomness],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "max-params": "off",
      "@typescript-eslint/max-params": ["error", { max: 4 }],
      "max-len": [
        "error",
        {
          code: 120,
          ignoreStrings: true,
          ignoreTemplateLiterals: true,
          ignoreRegExpLiterals: true,
          ignoreUrls: true,
        },
      ],
    },
  },
  {
    files: ["agent/**/*.ts", "server/**/*.ts", "shared/**/*.ts"],
    plugins: { stemma },
    rules: { "stemma/comment-start": "error" },
  },
  {
    // Twins of WebAssembly exports: the same plain numbers in the same order, called for every piece of a
    // tensor.
    files: ["shared/delta/kernels/*.ts"],
    rules: { "@typescript-eslint/max-params": "off" },
  },
  {
    // Bounds of layers: numeric loops over offsets, sizes and typed arrays, which must not allocate.
    files: [
      "server/learning/progressive/*-layers.ts",
      "server/learning/progressive/*-layer.ts",
      "server/learning/progressive/windows.ts",
      "server/learning/progressive/interval-network.ts",
    ],
    rules: { "@typescript-eslint/max-params": "off" },
  },
  {
    files: ["shared/train/**/*.ts", "shared/random/**/*.ts"],
    rules: {
      "no-restricted-properties": [
        "error",
        randomness,
        ...forbid(
          "Math",
          transcendental,
          "Its bits differ between processors and Node versions; use a table or exact arithmetic.",
        ),
      ],
      "no-restricted-syntax": [
        "error",
        {
          selector: "BinaryExpression[operator='**']:not([left.type='Literal'][right.type='Literal'])",
          message:
            "** is Math.pow: its bits differ between processors (powers of two by literals are exact).",
        },
      ],
    },
  },
  {
    // Longer ones are split along their parts. A table of handlers that is one expression says so where it stands.
    files: ["server/**/*.ts", "agent/**/*.ts", "shared/**/*.ts"],
    ignores: [
      "**/kernels/assembly/**",
      "server/cli/commands/release.ts",
      // Parts of the training engine, whose code stays as it is.
      "shared/train/datasets/samples.ts",
      "shared/train/datasets/text-folder.ts",
      "shared/train/run-training.ts",
    ],
    rules: {
      "max-lines-per-function": ["error", { max: 70, skipBlankLines: true, skipComments: true }],
    },
  },
  {
    // A fake of an asynchronous port is async even where it awaits nothing: what it throws must reject, as it
    // does in the real port.
    files: ["test/**/*.ts"],
    rules: { "@typescript-eslint/require-await": "off" },
  },
  {
    // Benchmarks are scripts that no test runs as a whole: what they use before it is set would end them at their start.
    files: ["test/bench/**/*.bench.ts"],
    rules: {
      "@typescript-eslint/no-use-before-define": [
        "error",
        { functions: false, classes: true, typedefs: false },
      ],
    },
  },
  {
    // Kernels take pointers and sizes as plain numbers, as the functions of kernels.wasm do.
    files: ["shared/train/kernels/**/*.ts"],
    rules: { "@typescript-eslint/max-params": "off" },
  },
);
