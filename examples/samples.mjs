// Prints battery samples for the recipe battery-soh, one JSON object a line:
//   node samples.mjs COUNT > samples.jsonl
// label: state of health, 0 to 1. values: 10 time steps of 3 readings.
const count = Number(process.argv[2] ?? 210);
for (let i = 0; i < count; i++) {
  const health = 0.8 + 0.15 * Math.abs(Math.sin(i * 0.7));
  const values = [];
  for (let step = 0; step < 10; step++) {
    const current = 0.5 + 0.4 * Math.sin(i + step);
    const voltage = 0.6 + 0.3 * health - 0.05 * current;
    const temperature = 0.3 + 0.02 * step;
    values.push(voltage, current, temperature);
  }
  const rounded = values.map((value) => Number(value.toFixed(4)));
  console.log(JSON.stringify({ label: Number(health.toFixed(4)), shape: [10, 3], values: rounded }));
}
