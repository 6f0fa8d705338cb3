// The cache inspector: whose work each token of a prompt was, why no more was reused, and what that saved.
import type { Api, End, Model, Request, Span, Stats } from './api.js';
import { h } from './dom.js';
import type { Node } from './tree.js';

type Origin = 'memory' | 'disk' | 'remote' | 'computed' | 'repaired' | 'generated' | 'kept';
const names: Record<Origin, string> = {
  memory: 'from memory', disk: 'from disk', remote: 'from another machine', computed: 'computed now', repaired: 'repaired',
  generated: 'generated', kept: 'kept',
};

export function originOf(source: string): Origin {
  if (source === 'computed' || source === 'generated') return source;
  if (source.startsWith('repair')) return 'repaired';
  if (source.startsWith('live') || source.startsWith('ram')) return 'memory';
  return source.startsWith('redis') ? 'remote' : 'disk';
}

function coloured(className: string, origin: Origin): HTMLSpanElement {
  const span = h('span', { className });
  span.style.setProperty('--c', `var(--${origin})`);
  return span;
}

const seconds = (s: number) => (s < 1 ? `${(s * 1e3).toFixed(s < 0.01 ? 1 : 0)} ms` : `${s.toFixed(2)} s`);
const bytes = (n: number) => (n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`);

function legend(spans: Span[]): HTMLElement {
  const count = new Map<Origin, number>();
  for (const s of spans) count.set(originOf(s.source), (count.get(originOf(s.source)) ?? 0) + s.end - s.begin);
  const list = h('div', { className: 'legend' });
  for (const [origin, n] of count) {
    const item = coloured('', origin);
    item.textContent = `${n} ${names[origin]}`;
    list.append(item);
  }
  return list;
}

function bar(spans: Span[], total: number): HTMLElement {
  const all = h('div', { className: 'bar', role: 'img', ariaLabel: 'where the tokens came from' });
  for (const s of spans) {
    const part = coloured('', originOf(s.source));
    part.style.setProperty('flex-grow', String((s.end - s.begin) / total));
    part.title = `${s.end - s.begin} tokens: ${s.source}`;
    all.append(part);
  }
  return all;
}

// Every run of tokens of one origin is one element, so a long prompt is a few of them.
function prompt(pieces: string[], end: End): HTMLElement {
  const box = h('div', { className: 'prompt', tabIndex: 0, ariaLabel: 'the prompt' });
  const miss = end.receipt.miss_at?.token ?? -1;
  for (const span of end.receipt.spans) {
    const cuts = [span.begin, ...[miss, miss + 1].filter((t) => miss >= 0 && t > span.begin && t < span.end), span.end];
    for (let i = 0; i + 1 < cuts.length; ++i) {
      const part = coloured(cuts[i] === miss ? 'first' : '', originOf(span.source));
      part.title = cuts[i] === miss ? 'the first token that nothing known had' : span.source;
      part.textContent = pieces.slice(cuts[i], cuts[i + 1]).join('');
      box.append(part);
    }
  }
  return box;
}

// `requestOf`: what is sent to have a message answered.
export async function inspect(api: Api, node: Node, requestOf: (question: Node) => Request, turns: Node[], into: HTMLElement): Promise<void> {
  const end = node.end!;
  const r = end.receipt;
  const total = end.usage.prompt_tokens;
  const text = h('div', {}, 'The prompt is being read again …');
  const tiers = h('div', {}), server = h('div', {});
  into.replaceChildren(
    h('h2', {}, 'Cache inspector'),
    h('div', {}, `${r.reused_tokens} of ${total} tokens of this prompt were there already.`),
    bar(r.spans, total), legend(r.spans),
    ...(r.miss ? [h('p', { className: 'miss' }, r.miss)] : []),
    ...(r.notes ?? []).map((note) => h('p', {}, note)),
    h('h2', {}, 'The prompt by origin'), text,
    h('h2', {}, 'Time to first token by turn'), times(api, turns, requestOf),
    h('h2', {}, 'What is kept'), tiers,
    h('h2', {}, 'The server since its start'), server,
  );
  const [pieces, stats] = await Promise.all([api.tokens(requestOf(node.parent!)), api.stats()]);
  if (pieces.length === total) text.replaceChildren(prompt(pieces, end));
  else text.textContent = 'The prompt is another one now: its answers are no longer remembered.';
  const table = h('table', { className: 'ttft' }, h('tr', {}, ...['place', 'bytes', 'of', 'records'].map((t) => h('th', {}, t))));
  for (const t of stats.tiers)
    table.append(h('tr', {}, ...[t.tier, bytes(t.bytes), bytes(t.budget), String(t.records)].map((x) => h('td', {}, x))));
  server.replaceChildren(work(stats));
  tiers.replaceChildren(stats.tiers.length ? table : 'Nothing: the server has no place for pages.',
    h('p', {}, `This answer loaded ${bytes(r.loaded_bytes)} in ${seconds(r.load_seconds)}.`));
}

// What all requests together made of the server; rows of what there was none of are left out.
function work(s: Stats): HTMLElement {
  const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
  const rate = (value: number | null) => value !== null && `${value.toFixed(1)} tokens/s`;
  const rows: [string, string | false][] = [
    ['prompts', rate(s.rates.prompt_tokens_per_second)],
    ['answers', rate(s.rates.generated_tokens_per_second)],
    ['reused', s.hit_share !== null && `${percent(s.hit_share)} of the tokens of prompts`],
    ['at a time', s.batch.mean !== null && `${s.batch.mean.toFixed(2)} answers, ${s.batch.most} at most`],
    ['pages', `${s.pool.used} used, ${s.pool.shared} of them shared, ${s.pool.free} free`],
    ['drafts', s.drafts.drafted > 0 && `${s.drafts.accepted} of ${s.drafts.drafted} draft tokens were accepted`],
    ['selection', s.selection.mass !== null && `held ${percent(s.selection.mass)} of the attention`],
  ];
  return h('table', { className: 'ttft' }, ...rows.flatMap(([name, text]) => text ? [h('tr', {}, h('td', {}, name), h('td', {}, text))] : []));
}

function times(api: Api, turns: Node[], requestOf: (question: Node) => Request): HTMLElement {
  const table = h('table', { className: 'ttft' },
    h('tr', {}, ...['turn', 'tokens', 'with the cache', 'without'].map((t) => h('th', {}, t))));
  turns.forEach((turn, i) => {
    const cell = h('td', {}, turn.uncached === undefined ? '' : seconds(turn.uncached));
    if (turn.uncached === undefined) {
      const measure = h('button', { type: 'button', className: 'small', textContent: 'measure' });
      measure.onclick = async () => {
        measure.disabled = true;
        try {
          turn.uncached = await api.uncached(requestOf(turn.parent!), new AbortController().signal);
          cell.textContent = seconds(turn.uncached);
        } catch (error) {
          cell.textContent = error instanceof Error ? error.message : String(error);
        }
      };
      cell.append(measure);
    }
    const r = turn.end!.receipt;
    table.append(h('tr', {}, h('td', {}, String(i + 1)), h('td', {}, String(turn.end!.usage.prompt_tokens)),
      h('td', {}, seconds(r.queue_seconds + r.prefill_seconds)), cell));
  });
  return table;
}

// What an answer took and left: the tokens of prompt and answer by origin, then each sum in bytes and time.
export function effect(end: End, model: Model | null): HTMLElement {
  const r = end.receipt;
  const prompt = end.usage.prompt_tokens;
  const all = prompt + end.usage.completion_tokens;
  const { kv_bytes_per_token: sealed, kv_f16_bytes_per_token: plain } = model?.kvasir ?? { kv_bytes_per_token: 0, kv_f16_bytes_per_token: 0 };
  const strip = bar([...r.spans, { begin: prompt, end: all, source: 'generated' }], all);
  const line = (origin: Origin, name: string, tokens: number, ...facts: string[]) => {
    const item = coloured('', origin);
    item.append(h('b', {}, name), ` ${tokens} tokens${facts.filter(Boolean).map((f) => ` · ${f}`).join('')}`);
    return item;
  };
  const loaded = r.reused_tokens > 0 ? `${bytes(r.loaded_bytes)} loaded in ${seconds(r.load_seconds)}` : '';
  // Whole pages are sealed; the newest tokens are kept in 16 bits.
  const pages = 128 * (r.pages?.sealed ?? 0);
  const kept = pages * sealed + (all - pages) * plain + r.state_bytes;
  const reused = r.spans.find((s) => s.source !== 'computed');
  return h('div', { className: 'effect' }, strip, h('div', { className: 'legend' },
    line(reused ? originOf(reused.source) : 'memory', 'reused', r.reused_tokens, loaded),
    r.rows && line(reused && r.rows.reused ? originOf(reused.source) : 'computed', 'of pictures and sounds', r.rows.count, `${r.rows.reused} reused`,
      r.rows.waited > 0 ? `waited ${seconds(r.rows.wait_seconds)} for the others` : ''),
    line('computed', 'computed', r.computed_tokens, `first token ${seconds(r.queue_seconds + r.prefill_seconds)}`),
    line('generated', 'generated', end.usage.completion_tokens, seconds(r.decode_seconds)),
    plain > 0 && line('kept', 'kept', all, `${bytes(kept)} of ${bytes(all * plain + r.state_bytes)} in 16 bits`)));
}

export function figures(end: End): string {
  const r = end.receipt;
  const rate = r.decode_seconds > 0 ? ((end.usage.completion_tokens - 1) / r.decode_seconds).toFixed(1) : '–';
  return `reused ${r.reused_tokens} of ${end.usage.prompt_tokens} tokens · first token ${seconds(r.queue_seconds + r.prefill_seconds)}` +
    ` · ${end.usage.completion_tokens} tokens at ${rate} tokens/s${end.finish === 'length' ? ' · cut by the limit' : ''}`;
}
