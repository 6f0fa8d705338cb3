// The page: a conversation on the left, settings or the cache inspector on the right.
import { Api, ApiError, type Message, type Model, type Request, type Sampling } from './api.js';
import { h } from './dom.js';
import { effect, figures, inspect } from './inspector.js';
import { render } from './markdown.js';
import { addCalls, type Node, Tree } from './tree.js';

const api = new Api();
let tree = new Tree();
let running: AbortController | null = null;
let current: Model | null = null;
const continues = () => current !== null && !current.kvasir.chat;  // no chat template: texts are continued

// --- settings -------------------------------------------------------------------------------------------------------

const number = (value: number, step: number, min: number, max: number) =>
  h('input', { type: 'number', value: String(value), step: String(step), min: String(min), max: String(max) });
const system = h('textarea', { rows: 4, placeholder: 'none' });
const tools = h('textarea', { rows: 4, placeholder: '[{"type": "function", "function": {"name": …}}]', spellcheck: false });
const temperature = number(0.8, 0.1, 0, 2);
const topP = number(0.95, 0.01, 0, 1);
const topK = number(40, 1, 0, 1000);
const minP = number(0.05, 0.01, 0, 1);
const maxTokens = number(0, 1, 0, 1e6);
const seed = h('input', { type: 'number', placeholder: 'random' });
const thinking = h('input', { type: 'checkbox', checked: true });

function sampling(): Sampling {
  return {
    temperature: temperature.valueAsNumber || 0, top_p: Number.isNaN(topP.valueAsNumber) ? 1 : topP.valueAsNumber,
    top_k: topK.valueAsNumber || 0, min_p: minP.valueAsNumber || 0, max_tokens: maxTokens.valueAsNumber || 0,
    seed: Number.isNaN(seed.valueAsNumber) ? null : seed.valueAsNumber,
  };
}

function requestFor(node: Node): Request {
  let list: unknown[] | null = null;
  if (tools.value.trim()) {
    const parsed: unknown = JSON.parse(tools.value);
    if (!Array.isArray(parsed)) throw new Error('Tools: expected a JSON array of tools.');
    list = parsed;
  }
  const common = { sampling: sampling(), thinking: thinking.checked };
  if (continues()) return { messages: [], text: tree.text(node), tools: null, ...common };
  return { messages: tree.messages(node, system.value), tools: list, ...common };
}

const label = (text: string, field: HTMLElement, className = '') => h('label', { className }, text, field);
const settings = h('div', { className: 'settings' },
  h('h2', {}, 'Settings'),
  label('System prompt', system, 'wide'), label('Temperature', temperature), label('Top p', topP), label('Top k (0: off)', topK),
  label('Min p', minP), label('Most tokens (0: any)', maxTokens), label('Seed', seed), label('Thinking', thinking, 'check'),
  label('Tools, as JSON', tools, 'wide'));

// --- frame ----------------------------------------------------------------------------------------------------------

const modelName = h('span', { className: 'model' });
const codecs = h('span', { className: 'codecs', hidden: true });
const cacheButton = h('button', {
  type: 'button', className: 'small', hidden: true, title: 'how keys and values are stored',
  onclick: () => { codecs.hidden = !codecs.hidden; },
});
const modelChoice = h('select', { hidden: true, ariaLabel: 'Model' });
const side = h('aside', { hidden: true, id: 'side' });
const chat = h('div', { className: 'chat', role: 'log' });
const notice = h('div', { className: 'notice', role: 'alert' });
const input = h('textarea', { rows: 1, placeholder: 'Message', ariaLabel: 'Message', autofocus: true });
const send = h('button', { type: 'submit', className: 'primary', textContent: 'Send' });
const settingsButton = h('button', { type: 'button', textContent: 'Settings', onclick: () => toggle(settings) });
const newButton = h('button', { type: 'button', textContent: 'New chat' });
const picker = h('input', { type: 'file', multiple: true, hidden: true });
const pick = h('button', { type: 'button', hidden: true, title: 'or paste or drop one', onclick: () => picker.click() });
const pictures = h('div', { className: 'pictures' });
const form = h('form', { className: 'ask' }, pick, picker, input, send);

document.body.append(
  h('header', {}, h('h1', {}, 'Kvasir'), modelChoice, modelName, cacheButton, codecs, newButton, settingsButton),
  h('main', {}, chat, h('div', {}, notice, pictures, form)), side);

function toggle(panel: HTMLElement): void {
  const shown = !side.hidden && side.firstChild === panel;
  side.hidden = shown;
  if (!shown) side.replaceChildren(panel);
}

function say(text: string): void { notice.textContent = text; }

function fail(error: unknown): void {
  if (error instanceof ApiError && error.status === 401) return askForKey();
  say(error instanceof Error ? error.message : String(error));
}

function askForKey(): void {
  const key = h('input', { type: 'password', ariaLabel: 'API key', autocomplete: 'off' });
  const ask = h('form', {}, 'This server wants an API key: ', key, ' ', h('button', { type: 'submit' }, 'Use it'));
  ask.onsubmit = (event) => {
    event.preventDefault();
    api.key = key.value;
    say('');
    void start();
  };
  notice.replaceChildren(ask);
  key.focus();
}

// --- the conversation -----------------------------------------------------------------------------------------------

function buttons(node: Node): HTMLElement[] {
  const list: HTMLElement[] = [];
  const add = (text: string, title: string, act: () => void) =>
    list.push(h('button', { type: 'button', className: 'small', textContent: text, title, ariaLabel: title, onclick: act }));
  const siblings = node.parent!.children;
  if (siblings.length > 1) {
    add('‹', 'the branch before', () => { tree.choose(node, -1); draw(); });
    list.push(h('span', {}, `${siblings.indexOf(node) + 1} of ${siblings.length}`));
    add('›', 'the branch behind', () => { tree.choose(node, 1); draw(); });
  }
  if (running) return list;
  if (node.message.role === 'user') add('edit', 'edit and ask again, in a branch of its own', () => edit(node));
  if (node.message.role === 'assistant') add('again', 'another answer, in a branch of its own', () => void answer(node.parent!));
  if (node.end) add('cache', 'what the cache did for this answer', () => void showInspector(node));
  return list;
}

function drawMessage(node: Node): HTMLElement {
  const m = node.message;
  const text = h('div', { className: 'text' });
  if (m.role === 'assistant' && !continues()) render(m.content, text);
  else text.textContent = m.content;
  const box = h('article', { className: `message ${m.role === 'tool' ? 'user' : m.role}` },
    h('div', { className: 'who' }, { user: continues() ? 'Text' : 'You', assistant: continues() ? 'Continued' : 'Model', tool: 'Result', system: 'System' }[m.role],
      ...buttons(node)));
  if (m.reasoning_content) box.append(h('details', { open: !m.content }, h('summary', {}, 'Reasoning'), m.reasoning_content));
  if (m.images?.length) box.append(h('div', { className: 'pictures' }, ...m.images.map((src) => h('img', { src, alt: 'a picture of yours' }))));
  for (const src of m.sounds ?? []) box.append(h('audio', { src, controls: true, ariaLabel: 'a sound of yours' }));
  if (m.content || !(m.images?.length || m.sounds?.length)) box.append(text);
  for (const call of m.tool_calls ?? []) box.append(h('pre', {}, `${call.function.name}(${call.function.arguments})`));
  if (m.tool_calls && !running && node.children.length === 0) box.append(resultForm(node));
  if (node.error) box.append(h('div', { className: 'error' }, node.error));
  if (node.end) box.append(effect(node.end, current), h('div', { className: 'figures' }, figures(node.end)));
  return box;
}

// Tools are not run here: whoever sits in front says what they gave.
function resultForm(node: Node): HTMLElement {
  const fields = node.message.tool_calls!.map((call) =>
    ({ call, field: h('textarea', { rows: 2, ariaLabel: `result of ${call.function.name}`, placeholder: `result of ${call.function.name}` }) }));
  const form = h('form', {}, ...fields.map((f) => f.field), h('button', { type: 'submit' }, 'Give results'));
  form.onsubmit = (event) => {
    event.preventDefault();
    let last = node;
    for (const { call, field } of fields) last = tree.add(last, { role: 'tool', content: field.value, tool_call_id: call.id });
    void answer(last);
  };
  return form;
}

let shown = new Map<Node, HTMLElement>();
function draw(): void {
  const path = tree.path();
  shown = new Map(path.map((node) => [node, drawMessage(node)]));
  const low = chat.scrollHeight - chat.scrollTop - chat.clientHeight < 80;
  chat.replaceChildren(...(path.length ? shown.values() : [h('div', { className: 'empty' }, `${continues() ? 'Begin a text, and the model continues it.' : 'Say something.'} Nothing leaves this server.`)]));
  if (low) chat.scrollTop = chat.scrollHeight;
  send.textContent = running ? 'Stop' : continues() ? 'Continue' : 'Send';
  input.placeholder = continues() ? 'Text to continue' : 'Message';
}

function edit(node: Node): void {
  const field = h('textarea', { value: node.message.content, rows: 4, ariaLabel: 'the question, to be edited' });
  const save = h('form', { className: 'ask' }, field, h('button', { type: 'submit', className: 'primary' }, 'Ask'),
    h('button', { type: 'button', onclick: draw }, 'Cancel'));
  save.onsubmit = (event) => {
    event.preventDefault();
    void answer(tree.add(node.parent!, { ...node.message, content: field.value }));
  };
  shown.get(node)!.replaceChildren(save);
  field.focus();
}

async function answer(question: Node): Promise<void> {
  let request: Request;
  try {
    request = requestFor(question);
  } catch (error) {
    draw();
    return fail(error);
  }
  say('');
  const message: Message = { role: 'assistant', content: '' };
  const node = tree.add(question, message);
  const control = (running = new AbortController());
  draw();
  let due = false;
  const redraw = () => {
    if (due) return;
    due = true;
    setTimeout(() => {
      due = false;
      const old = shown.get(node);
      if (!old || running !== control) return;
      const fresh = drawMessage(node);
      const low = chat.scrollHeight - chat.scrollTop - chat.clientHeight < 80;
      old.replaceWith(fresh);
      shown.set(node, fresh);
      if (low) chat.scrollTop = chat.scrollHeight;
    }, 60);
  };
  try {
    const end = await api.chat(request, control.signal, (delta) => {
      message.content += delta.content;
      if (delta.reasoning) message.reasoning_content = (message.reasoning_content ?? '') + delta.reasoning;
      addCalls(message, delta.calls);
      redraw();
    });
    if (end) node.end = end;
  } catch (error) {
    if (!control.signal.aborted) {
      const empty = !message.content && !message.reasoning_content && !message.tool_calls;
      if (empty) tree.remove(node);
      else node.error = error instanceof Error ? error.message : String(error);
      if (empty) fail(error);
    }
  }
  if (running === control) running = null;  // a new chat may have begun another answer
  draw();
}

async function showInspector(node: Node): Promise<void> {
  const panel = h('div', { className: 'inspector' });
  side.hidden = false;
  side.replaceChildren(panel);
  const path = tree.path();
  const turns = path.slice(0, path.indexOf(node) + 1).filter((n) => n.end);
  try {
    await inspect(api, node, requestFor, turns, panel);
  } catch (error) {
    fail(error);
  }
}

// --- input ----------------------------------------------------------------------------------------------------------

function fit(): void {
  input.style.height = 'auto';
  input.style.height = `${input.scrollHeight + 2}px`;
}

form.onsubmit = (event) => {
  event.preventDefault();
  if (running) return running.abort();
  const text = input.value;
  // A text may go on without a word more.
  if (!text.trim() && !pending.images.length && !pending.sounds.length) return void (continues() && tree.last() !== tree.root && answer(tree.last()));
  input.value = '';
  fit();
  const { images, sounds } = pending;
  pending = { images: [], sounds: [] };
  drawPending();
  void answer(tree.add(tree.last(), {
    role: 'user', content: text, ...(images.length ? { images } : {}), ...(sounds.length ? { sounds } : {}),
  }));
};
input.oninput = fit;
input.onkeydown = (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    if (!running) form.requestSubmit();
  }
};
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  if (running) running.abort();
  else side.hidden = true;
});

let pending: { images: string[]; sounds: string[] } = { images: [], sounds: [] };  // for the next message, as data: URLs

function drawPending(): void {
  const button = (list: string[], i: number, name: string, ...shown: HTMLElement[]) => h('button', {
    type: 'button', title: 'leave it out', ariaLabel: `leave ${name} ${i + 1} out`,
    onclick: () => { list.splice(i, 1); drawPending(); },
  }, ...shown);
  pictures.replaceChildren(
    ...pending.images.map((src, i) => button(pending.images, i, 'picture', h('img', { src, alt: '' }))),
    ...pending.sounds.map((_, i) => button(pending.sounds, i, 'sound', h('span', {}, `Sound ${i + 1} ×`))));
}

const reads = () => ({ pictures: !!current?.kvasir.vision && !continues(), sounds: !!current?.kvasir.audio && !continues() });

async function addFiles(files: FileList): Promise<void> {
  const can = reads();
  if (!can.pictures && !can.sounds) return say('This model reads only text: images and files cannot be sent.');
  say('');
  for (const file of files) {
    const picture = can.pictures && /^image\/(png|jpeg|webp)$/.test(file.type);
    // What browsers call WAV, FLAC, Ogg and MP3.
    const sound = can.sounds && /^(audio\/((x-)?(wav|flac)|wave|vnd\.wave|ogg|opus|mpeg|mp3)|application\/ogg)$/.test(file.type);
    if (!picture && !sound) {
      const kinds = [...(can.pictures ? ['no picture: PNG, JPEG and WebP'] : []), ...(can.sounds ? ['no sound: WAV, FLAC, Ogg and MP3'] : [])];
      say(`${file.name || 'This file'} is ${kinds.join(', and ')} can be sent.`);
      continue;
    }
    (picture ? pending.images : pending.sounds).push(await new Promise<string>((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result as string);
      reader.onerror = () => reject(reader.error);
      reader.readAsDataURL(file);
    }));
    drawPending();
  }
}

const take = (data: DataTransfer | null, event: Event) => {
  if (!data || data.files.length === 0) return;
  event.preventDefault();
  addFiles(data.files).catch(fail);
};
document.addEventListener('paste', (event) => take(event.clipboardData, event));
document.addEventListener('drop', (event) => take(event.dataTransfer, event));
picker.onchange = () => {
  addFiles(picker.files!).catch(fail).finally(() => { picker.value = ''; });
};
document.addEventListener('dragover', (event) => event.preventDefault());

newButton.onclick = () => {
  running?.abort();
  tree = new Tree();
  pending = { images: [], sounds: [] };
  drawPending();
  side.hidden = true;
  say('');
  draw();
  input.focus();
};

// `several`: a choice beside it has the name already.
function show(model: Model, several: boolean): void {
  current = model;
  const { k_codec, v_codec, kv, kv_bytes_per_token: sealed, kv_f16_bytes_per_token: plain, loaded } = model.kvasir;
  const facts = several ? [] : [model.id];
  facts.push(`context ${model.max_model_len}`);
  if (several && !loaded) facts.push('loaded when it is asked');
  const can = reads();
  pick.hidden = !can.pictures && !can.sounds;
  pick.textContent = can.pictures && can.sounds ? 'File' : can.sounds ? 'Sound' : 'Picture';
  picker.accept = [...(can.pictures ? ['image/png', 'image/jpeg', 'image/webp'] : []), ...(can.sounds ? ['audio/*', '.flac', '.ogg', '.opus'] : [])].join(',');
  modelName.textContent = facts.join(' · ');
  cacheButton.hidden = !kv;
  cacheButton.textContent = plain > 0 ? `${kv}: ${Math.round((100 * sealed) / plain)} % of 16 bits` : kv;
  codecs.hidden = true;
  codecs.textContent = `keys ${k_codec} · values ${v_codec} · ${Math.round(sealed)} B per token`;
  say('');
  draw();
}

async function start(): Promise<void> {
  try {
    const models = await api.models();
    const several = models.length > 1;
    modelChoice.hidden = !several;
    modelChoice.replaceChildren(...models.map((m) => h('option', { value: m.id, textContent: m.id })));
    const choose = () => {
      const model = models[Math.max(0, modelChoice.selectedIndex)]!;
      api.chosen = several ? model.id : '';
      show(model, several);
    };
    modelChoice.onchange = choose;
    choose();
  } catch (error) {
    fail(error);
  }
}

draw();
void start();
