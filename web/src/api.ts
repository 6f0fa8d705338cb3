// What the page asks of its server. Nothing else is asked of anyone.

export interface Span { begin: number; end: number; source: string }
export interface Receipt {
  spans: Span[];
  reused_tokens: number;
  computed_tokens: number;
  pages: { reused: number; computed: number; sealed: number };
  loaded_bytes: number;
  state_bytes: number;
  load_seconds: number;
  queue_seconds: number;
  prefill_seconds: number;
  decode_seconds: number;
  miss: string | null;
  miss_at: { token: number; message?: number; role?: string; byte?: number } | null;
  notes?: string[];
  rows?: { count: number; reused: number; waited: number; wait_seconds: number };  // of pictures and sounds
}
export interface Usage { prompt_tokens: number; completion_tokens: number }
export interface Call { id: string; type: 'function'; function: { name: string; arguments: string } }
export interface Message {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string;
  images?: string[];  // data: URLs of pictures, which stand in front of the text
  sounds?: string[];  // the same of sounds, behind the pictures
  reasoning_content?: string;
  tool_calls?: Call[];
  tool_call_id?: string;
}
export interface Sampling { temperature: number; top_p: number; top_k: number; min_p: number; max_tokens: number; seed: number | null }
// `text`: of a model without a chat template, which continues it; then the messages are not sent.
export interface Request { messages: Message[]; text?: string; tools: unknown[] | null; sampling: Sampling; thinking: boolean; reuse?: boolean }
export interface Delta { content: string; reasoning: string; calls: { index: number; id: string; name: string; arguments: string }[] }
export interface End { finish: string; usage: Usage; receipt: Receipt }
export interface Model {
  id: string;
  max_model_len: number;
  kvasir: {
    k_codec: string; v_codec: string; chat: boolean; vision: boolean; audio?: boolean; loaded: boolean;
    kv: string; kv_bytes_per_token: number; kv_f16_bytes_per_token: number;
  };
}
export interface Tier { tier: string; bytes: number; budget: number; records: number; hits: number; misses: number }
export interface Stats {
  tiers: Tier[];
  kv: { bytes: number; budget: number };
  hit_share: number | null;
  rates: { prompt_tokens_per_second: number | null; generated_tokens_per_second: number | null };
  batch: { mean: number | null; most: number };
  pool: { pages: number; used: number; free: number; shared: number };
  drafts: { drafted: number; accepted: number };
  selection: { chosen: number; mass: number | null };
}

export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

const keyName = 'kvasir-key';

export class Api {
  chosen = '';  // of the server's models; '': it has one

  get key(): string { return sessionStorage.getItem(keyName) ?? ''; }
  set key(value: string) { sessionStorage.setItem(keyName, value); }

  private async fetch(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = {};
    if (this.key) headers['Authorization'] = `Bearer ${this.key}`;
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    const answer = await fetch(path, {
      method: body === undefined ? 'GET' : 'POST', headers, signal: signal ?? null,
      body: body === undefined ? null : JSON.stringify(body),
    });
    if (answer.ok) return answer;
    let message = answer.statusText;
    try {
      message = (await answer.json()).error.message;
    } catch { /* no JSON: the status says it */ }
    throw new ApiError(answer.status, message);
  }

  async models(): Promise<Model[]> { return (await (await this.fetch('/v1/models')).json()).data; }
  async stats(): Promise<Stats> { return await (await this.fetch('/v1/stats')).json(); }

  // The prompt's tokens as text. Bytes of a character that is split over tokens come with the last of them. Rows of a
  // picture or a sound have negative ids.
  async tokens(request: Request): Promise<string[]> {
    const what = request.text === undefined ? this.body(request) : { content: request.text, add_special: true, ...(this.chosen ? { model: this.chosen } : {}) };
    const answer = await (await this.fetch('/tokenize', { ...what, with_pieces: true })).json();
    const decoder = new TextDecoder();
    return answer.tokens.map(({ id, piece }: { id: number; piece: string | number[] }) =>
      id < 0 ? '▪' : typeof piece === 'string' ? piece : decoder.decode(new Uint8Array(piece), { stream: true }));
  }

  private body(request: Request): Record<string, unknown> {
    const { temperature, top_p, top_k, min_p, max_tokens, seed } = request.sampling;
    return {
      ...(request.text === undefined ? { messages: request.messages.map(asSent) } : { prompt: request.text }),
      temperature, top_p, top_k, min_p,
      ...(this.chosen ? { model: this.chosen } : {}),
      ...(request.tools ? { tools: request.tools } : {}),
      ...(max_tokens > 0 ? { max_tokens } : request.text === undefined ? {} : { max_tokens: 128 }),
      ...(seed === null ? {} : { seed }),
      ...(request.thinking || request.text !== undefined ? {} : { reasoning_effort: 'none' }),
      ...(request.reuse === false ? { reuse: false } : {}),
    };
  }

  // Streams an answer. Ends early, without an End, when `signal` aborts.
  async chat(request: Request, signal: AbortSignal, on: (delta: Delta) => void): Promise<End | null> {
    const answer = await this.fetch(request.text === undefined ? '/v1/chat/completions' : '/v1/completions',
      { ...this.body(request), stream: true, stream_options: { include_usage: true } }, signal);
    let finish = 'stop';
    let end: End | null = null;
    for await (const data of events(answer.body!)) {
      if (data === '[DONE]') break;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError(500, chunk.error.message);
      const choice = chunk.choices[0];
      if (choice?.finish_reason) finish = choice.finish_reason;
      if (chunk.usage) end = { finish, usage: chunk.usage, receipt: chunk.kvasir };
      if (choice?.text) on({ content: choice.text, reasoning: '', calls: [] });
      const delta = choice?.delta;
      if (!delta) continue;
      const calls = (delta.tool_calls ?? []).map((c: { index: number; id?: string; function?: { name?: string; arguments?: string } }) =>
        ({ index: c.index, id: c.id ?? '', name: c.function?.name ?? '', arguments: c.function?.arguments ?? '' }));
      on({ content: delta.content ?? '', reasoning: delta.reasoning_content ?? '', calls });
    }
    return end;
  }

  // Seconds to the first token when nothing is reused and nothing is kept.
  async uncached(request: Request, signal: AbortSignal): Promise<number> {
    const end = await this.chat({ ...request, reuse: false, sampling: { ...request.sampling, max_tokens: 1 } }, signal, () => {});
    return end ? end.receipt.prefill_seconds : NaN;
  }
}

// A message with pictures or sounds has parts.
function asSent({ images = [], sounds = [], ...message }: Message): unknown {
  if (!images.length && !sounds.length) return message;
  const parts: unknown[] = [
    ...images.map((url) => ({ type: 'image_url', image_url: { url } })),
    ...sounds.map((data) => ({ type: 'input_audio', input_audio: { data } })),
  ];
  if (message.content) parts.push({ type: 'text', text: message.content });
  return { ...message, content: parts };
}

async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let held = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      held += value;
      for (let end = held.indexOf('\n\n'); end >= 0; end = held.indexOf('\n\n')) {
        const event = held.slice(0, end);
        held = held.slice(end + 2);
        for (const line of event.split('\n')) if (line.startsWith('data: ')) yield line.slice(6);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
