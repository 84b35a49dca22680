// A reporter of node:test that ends the process at the first failure, and else prints how many tests passed.
export default async function* firstFailure(source) {
  let passed = 0;
  for await (const { type, data } of source) {
    if (type === "test:fail" && !data.todo) process.exit(1);
    if (type === "test:pass" && !data.skip) passed++;
  }
  yield `\npassed ${passed}\n`;
}
