// Builds the page into the folder of the first argument: index.html, app.js and style.css, each as it is and compressed.
// Fails when they are larger than a page may be.
import { build } from 'esbuild';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const out = process.argv[2];
if (!out) throw new Error('usage: node build.mjs OUT-FOLDER');
const most = 200 * 1024;
mkdirSync(out, { recursive: true });
const bundle = async (entry) =>
  (await build({ entryPoints: [entry], bundle: true, minify: true, write: false, format: 'esm', target: 'es2022', legalComments: 'eof' }))
    .outputFiles[0].contents;
const files = {
  'index.html': readFileSync('index.html'),
  'app.js': await bundle('src/main.ts'),
  'style.css': await bundle('style.css'),
};
let total = 0;
for (const [name, bytes] of Object.entries(files)) {
  const packed = gzipSync(bytes, { level: 9 });
  writeFileSync(`${out}/${name}`, bytes);
  writeFileSync(`${out}/${name}.gz`, packed);
  total += packed.length;
  console.log(`${name}: ${bytes.length} bytes, ${packed.length} compressed`);
}
if (total > most) throw new Error(`the page has ${total} bytes, expected at most ${most}`);
