// Run in the folder where qmd is installed: its library, an index on disk, lexical search. The protocol of serving.py.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, root, state] = process.argv.slice(2);
console.warn = () => {}; // would report that vectors are unavailable
const { createStore } = await import(pathToFileURL(`${folder}/node_modules/@tobilu/qmd/dist/index.js`));
const collections = { memories: { path: root, pattern: "**/*.md" } };
const store = await createStore({ dbPath: `${state}/index.sqlite`, config: { collections } });

const start = performance.now();
const before = process.cpuUsage();
await store.update();
const used = process.cpuUsage(before);
const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
print({ wall: (performance.now() - start) / 1e3, cpu: (used.user + used.system) / 1e6 });

// One text is one query; several texts are separate queries, whose hits are merged.
const ask = ([text, ...others]) => {
  if (!others.length) return store.searchLex(text, { limit: 5 });
  const queries = [text, ...others].map((query) => ({ type: "lex", query }));
  return store.search({ queries, rerank: false, limit: 5 });
};

for await (const line of createInterface({ input: process.stdin })) {
  const begin = performance.now();
  const found = await ask(line.split("|"));
  const seconds = (performance.now() - begin) / 1e3;
  print({ seconds, paths: found.map((one) => one.displayPath.replace("memories/", "")) });
}
await store.close();
